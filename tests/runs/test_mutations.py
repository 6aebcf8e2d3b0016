"""Run and study folders with random damage: an error, or the same result as without it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.factories.command_line import exit_code
from tests.factories.toy_pronunciation import tiny_sections, write_dictionary

from regard import api
from regard.core.errors import RegardError
from regard.core.records.run import RunRecord
from regard.core.records.study import StudyRecord
from regard.runs.folder import RunFolder, evaluations, read_predictions
from regard.runs.load import load
from regard.runs.spec import RunSpec, merge_sections
from regard.runs.train import begin_run, resume_run
from regard.studies.execution.jobs import Event, Finished, Job, run_job
from regard.studies.folder import StudyFolder
from regard.studies.spec import StudySpec
from regard.studies.study import run_study
from regard.training.callbacks import Callback, StepMetrics

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs links, pipes and signals")

SECONDS = 60  # of one action


class InProcess:
    """An executor without worker processes."""

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        for job in jobs:
            run_job(job.sections, job.folder)
            yield Finished(job, 0.0)


class StopAt(Callback):
    """Interrupts a run, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step, self.seen = step, 0

    def on_step_end(self, info: StepMetrics) -> None:
        self.seen += 1
        if self.seen == self.step:
            signal.raise_signal(signal.SIGINT)


class Originals(NamedTuple):
    """Folders to copy: `runs` by name, those named "stopped…" unfinished; `study`; data to evaluate on."""

    root: Path
    study: StudySpec
    files: dict[str, Path]


def classifier(folder: Path) -> dict[str, Any]:
    rows = [
        f"{'good' if n % 2 else 'bad'}\tit was {'fine' if n % 2 else 'poor'} {n}" for n in range(40)
    ]
    (folder / "labels.tsv").write_text("\n".join(rows) + "\n")
    return {
        "task": {
            "name": "classify",
            "train_file": str(folder / "labels.tsv"),
            "validation_fraction": 0.2,
            "test_fraction": 0.2,
        },
        "model": {"name": "bilstm", "model_dim": 8, "hidden_dim": 8},
        "training": {"steps": 6, "evaluate_every": 3, "log_every": 2},
        "threads": 1,
    }


def question_answering(folder: Path) -> dict[str, Any]:
    """A language model that is pre-trained, then fine-tuned."""
    places = ("Rome", "Oslo", "Lima", "Bern")
    names = [f"{first} {last}" for first in ("Ann", "Bo", "Cy", "Di") for last in ("Ax", "By")]
    born = [(name, places[n % 4]) for n, name in enumerate(names)]
    (folder / "facts.txt").write_text("".join(f"{a} was born in {b}.\n" for a, b in born))
    rows = [f"Where was {name} born?\t{place}\n" for name, place in born]
    (folder / "questions.tsv").write_text("".join(rows))
    training = {"learning_rate": 3e-3, "warmup_steps": 2, "evaluate_every": 3, "log_every": 2}
    return {
        "task": {
            "name": "closed_book_qa",
            "train_file": str(folder / "questions.tsv"),
            "validation_file": str(folder / "questions.tsv"),
            "source_tokens": "words",
            "target_tokens": "words",
        },
        "model": {"name": "decoder_only", "model_dim": 8, "num_heads": 2, "num_layers": 1},
        "pretraining": {
            "task": {
                "name": "lm",
                "train_file": str(folder / "facts.txt"),
                "tokens": "words",
                "validation_fraction": 0.0,
            },
            "training": {"steps": 4, **training, "keep": "last"},
        },
        "training": {"steps": 6, **training},
        "threads": 1,
    }


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    root = tmp_path_factory.mktemp("originals")
    words = write_dictionary(root / "words.dict", count=60)
    tasks = {
        "words": tiny_sections(words, threads=1),
        "labels": classifier(root),
        "questions": question_answering(root),
    }
    for name, sections in tasks.items():
        for seed in (0, 1):
            spec = RunSpec.from_sections(merge_sections(sections, {"seed": seed}))
            assert begin_run(spec, RunFolder(root / f"runs/{name}-{seed}")) is not None
            stopped = RunFolder(root / f"runs/stopped-{name}-{seed}")
            step = 8 if name == "questions" else 4
            assert begin_run(spec, stopped, callbacks=[StopAt(step)]) is None
    base = merge_sections(tiny_sections(words, threads=1), {"task": {"beam_size": 1}})
    study = StudySpec.from_sections({**base, "sweep": {"mechanism": ["dot", "none"]}, "seeds": 2})
    run_study(study, root / "study", name="study", executor=InProcess())
    api.report(root / "study")
    files = {"words": words, "labels": root / "labels.tsv", "questions": root / "questions.tsv"}
    return Originals(root, study, files)


INPUTS = {
    "words": ["abc", "fade", "bee"],
    "labels": ["it was fine 3", "poor it was", "x"],
    "questions": ["Where was Ann Ax born?", "Where was Bo By born?"],
}


def use(run: Path, originals: Originals) -> Any:
    """Everything that is read of a run."""
    task = run.name.removeprefix("stopped-").rpartition("-")[0]
    trained = load(run)
    curve = [(point.step, point.scores) for point in evaluations(trained.folder)]
    found: list[Any] = [trained.predict(INPUTS[task]), trained.score(originals.files[task]), curve]
    if trained.folder.record.exists():
        found += [trained.record["scores"], trained.record["data"], trained.record["spec"]]
        found += [read_predictions(trained.folder, split) for split in ("validation", "test")]
    return found


def resume(run: Path, _: Originals) -> Any:
    folder = RunFolder(run)
    record = resume_run(folder)
    assert record is not None
    return record["scores"], folder.model.read_bytes(), folder.metrics.read_bytes()


def initialise(run: Path, originals: Originals) -> Any:
    """Warm start from the run."""
    spec = json.loads((originals.root / "runs" / run.name / "spec.json").read_text())
    spec.pop("pretraining", None)
    folder = RunFolder(run.parent / "new")
    record = begin_run(RunSpec.from_sections({**spec, "init_from": str(run)}), folder)
    assert record is not None
    return record["scores"], folder.model.read_bytes()


def without_seconds(record: StudyRecord | RunRecord) -> Any:
    """A run that was deleted is trained again, with the same results in another time."""
    found = json.loads(record.as_json())
    for value in containers(found):
        if isinstance(value, dict):
            value.pop("seconds", None)
            value.pop("evaluation_seconds", None)
    return found


def report(study: Path, _: Originals) -> Any:
    return without_seconds(api.report(study))


def report_from_record(study: Path, _: Originals) -> Any:
    return without_seconds(api.report(study, from_record=True))


def resume_study(study: Path, originals: Originals) -> Any:
    executor = InProcess()
    return without_seconds(run_study(originals.study, study, name="study", executor=executor))


Action = Callable[[Path, Originals], Any]
ACTIONS: dict[str, tuple[Action, ...]] = {
    "finished": (use, initialise),
    "stopped": (use, resume),
    "study": (report, report_from_record, resume_study),
}
COMMANDS = {"finished": ["predict"], "stopped": ["train", "--resume"], "study": ["report"]}


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


# Mutations: change `path`; `other` is the same file of another run or study.


def flip_bit(path: Path, other: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


def change_byte(path: Path, other: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(bytes(data))


def truncate(path: Path, other: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def empty(path: Path, other: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def delete(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()


def append(path: Path, other: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.choice([b"\n", b"\0", b'{"step": 1}\n']))


def exchange(path: Path, other: Path, rng: random.Random) -> None:
    if other.is_file():
        shutil.copyfile(other, path)


def make_folder(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def make_link(path: Path, other: Path, rng: random.Random) -> None:
    kept = path.with_name(f"kept-{path.name}")
    path.rename(kept)
    path.symlink_to(rng.choice([kept, other, Path("/dev/zero"), Path("nowhere")]))


def make_hard_link(path: Path, other: Path, rng: random.Random) -> None:
    path.with_name("backup").hardlink_to(path)


def make_pipe(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def set_mode(path: Path, other: Path, rng: random.Random) -> None:
    path.chmod(0)


def add_files(path: Path, other: Path, rng: random.Random) -> None:
    for name in ("notes.txt", ".regard.left", "record.json", "row_errors.txt"):
        if not (path.parent / name).exists():
            shutil.copyfile(other if other.is_file() else path, path.parent / name)


def change_encoding(path: Path, other: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    changes = [
        b"\xef\xbb\xbf" + data,
        data.replace(b"\n", b"\r\n"),
        data.replace(b"e", b"\xff", 1),
        data.decode("latin-1").encode("utf-16"),
    ]
    path.write_bytes(rng.choice(changes))


def edit_json(path: Path, other: Path, rng: random.Random) -> None:
    """Change a value, remove or repeat a key, reverse a list, in a JSON file or a row of JSON Lines."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    texts = text.splitlines() if path.suffix == ".jsonl" else [text]
    if path.suffix not in (".json", ".jsonl") or not any(texts):
        change_byte(path, other, rng)
        return
    index = rng.randrange(len(texts))
    value = json.loads(texts[index])
    places = [(value, key) for value in containers(value) for key in keys(value)]
    if not places:
        empty(path, other, rng)
        return
    holder, key = rng.choice(places)
    if rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = changed(holder[key], rng)
    texts[index] = json.dumps(value)
    if rng.random() < 0.1:  # a key twice
        texts[index] = texts[index].replace("{", '{"seed": 7, "key": "0", ', 1)
    path.write_text("\n".join(texts) + "\n")


def containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from containers(one)


def keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else list(range(len(value)))


def changed(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return rng.choice([value + 1, -value, 0, value * 1.5, float("nan"), 10**30, None])
        case str():
            return rng.choice([value + "x", value[::-1], "", value.upper(), "../x"])
        case list():
            return rng.choice([value[::-1], value[1:], [*value, *value], [[[[]]]]])
        case dict():
            return dict(zip(value, [*value.values()][::-1], strict=True))
    return 1


def nest(path: Path, other: Path, rng: random.Random) -> None:
    path.write_text("[" * 100_000 if rng.random() < 0.5 else "[" + "0," * 9_000_000 + "0]")


def change_rows(path: Path, other: Path, rng: random.Random) -> None:
    rows = path.read_bytes().split(b"\n")
    index = rng.randrange(len(rows))
    rows[index : index + 1] = rng.choice([[], [rows[index]] * 2])
    path.write_bytes(b"\n".join(rows))


def swap_folders(path: Path, other: Path, rng: random.Random) -> None:
    """Exchange the folder of the file with that of the other run, or put the other in its place."""
    mine, theirs = path.parent, other.parent
    if not theirs.is_dir() or not (mine.parent.name == "runs" or mine.name == "pretraining"):
        flip_bit(path, other, rng)  # a run of its own may have any name
        return
    kept = mine.with_name("kept")
    mine.rename(kept)
    shutil.copytree(theirs, mine)
    if theirs.is_relative_to(mine.parent):
        shutil.rmtree(theirs)
        kept.rename(theirs)


def delete_folder(path: Path, other: Path, rng: random.Random) -> None:
    if path.parent.parent.name == "runs":
        shutil.rmtree(path.parent)
    else:
        path.unlink()


MUTATIONS = [
    *(flip_bit, change_byte, truncate, empty, delete, append, exchange, make_folder, make_link),
    *(make_hard_link, make_pipe, set_mode, add_files, change_encoding, edit_json, edit_json),
    *(edit_json, nest, change_rows, swap_folders, delete_folder),
]


class Trial:
    """A copy of a run or study, one mutation, and what its actions return."""

    def __init__(self, originals: Originals, kind: str, number: int, folder: Path) -> None:
        self.originals, self.kind, self.folder = originals, kind, folder
        self.rng = random.Random(number)
        if kind == "study":
            self.source, self.others = originals.root / "study", []
        else:
            runs = [
                run
                for run in sorted((originals.root / "runs").iterdir())
                if run.name.startswith("stopped") == (kind == "stopped")
            ]
            self.source = self.rng.choice(runs)
            self.others = [run for run in runs if run != self.source]

    def mutate(self, run: Path, mutation: Callable[..., None], name: str | None = None) -> str:
        """Apply the mutation to a file of the copy; returns a description."""
        files = sorted(path for path in run.rglob("*") if path.is_file())
        read = [path for path in files if path.suffix not in (".html", ".svg", ".csv")]
        path = run / name if name is not None else self.rng.choice(read)
        relative = path.relative_to(run)
        if relative.parts[0] == "runs":  # the same file of another run of the study
            names = sorted(
                one.name for one in (run / "runs").iterdir() if one.name != relative.parts[1]
            )
            other = run / "runs" / self.rng.choice(names) / Path(*relative.parts[2:])
        else:
            other = self.rng.choice(self.others or [run / "nowhere"]) / relative
        mutation(path, other, self.rng)
        return f"{self.source.name}: {mutation.__name__} of {relative}, other {other}"

    def outcomes(self, mutation: Callable[..., None] | None = None, name: str | None = None) -> Any:
        """Action → its result, or the error."""
        found: dict[str, Any] = {}
        for number, action in enumerate(ACTIONS[self.kind]):
            run = self.folder / str(number) / self.source.name
            shutil.copytree(self.source, run)
            state = self.rng.getstate()
            if mutation is not None:
                found["mutation"] = self.mutate(run, mutation, name)
                self.rng.setstate(state)  # the same for every action
            try:
                with time_limit(SECONDS):
                    found[action.__name__] = action(run, self.originals)
            except RegardError as error:
                found[action.__name__] = error
            except OSError as error:
                pytest.fail(f"{found}: {action.__name__} raised {error!r}")
        shutil.rmtree(self.folder)
        return found


_EXPECTED: dict[Path, Any] = {}


def check(trial: Trial, mutation: Callable[..., None], name: str | None = None) -> list[str]:
    """The actions that raised; fails if another one has another result than without the mutation."""
    if trial.source not in _EXPECTED:
        _EXPECTED[trial.source] = Trial.outcomes(trial)
        assert not any(isinstance(one, Exception) for one in _EXPECTED[trial.source].values())
    found = trial.outcomes(mutation, name)
    what = found.pop("mutation")
    for action, result in found.items():
        if not isinstance(result, RegardError):
            assert result == _EXPECTED[trial.source][action], f"{what}: {action} has another result"
    return [action for action, result in found.items() if isinstance(result, RegardError)]


@pytest.mark.parametrize(
    ("kind", "name", "mutation"),
    [
        ("finished", "model.safetensors", flip_bit),
        ("finished", "preprocessor.json", edit_json),
        ("finished", "spec.json", exchange),
        ("finished", "manifest.json", exchange),
        ("finished", "record.json", edit_json),
        ("finished", "predictions-test.jsonl", make_pipe),
        ("stopped", "checkpoint.safetensors", exchange),
        ("stopped", "metrics.jsonl", make_link),
        ("stopped", "manifest.json", nest),
        ("study", "study.json", edit_json),
        ("study", "record.json", edit_json),
    ],
)
def test_damage_is_an_error(
    kind: str, name: str, mutation: Callable[..., None], originals: Originals, tmp_path: Path
) -> None:
    raised = check(Trial(originals, kind, 1, tmp_path / "trial"), mutation, name)
    assert raised


def test_exchanged_runs_of_a_study_are_an_error(originals: Originals, tmp_path: Path) -> None:
    study = originals.root / "study"
    first = min(path.name for path in StudyFolder(study).runs.iterdir())
    trial = Trial(originals, "study", 1, tmp_path / "trial")
    assert check(trial, swap_folders, f"runs/{first}/spec.json") == ["report", "resume_study"]


@pytest.mark.stress
def test_random_damage(originals: Originals, tmp_path: Path) -> None:
    faults, raised = [], 0
    for number in range(int(os.environ.get("REGARD_MUTATIONS", "300"))):
        rng = random.Random(number)
        kind, mutation = rng.choice(list(ACTIONS)), rng.choice(MUTATIONS)
        trial = Trial(originals, kind, number, tmp_path / str(number))
        try:
            raised += bool(check(trial, mutation))
        except (Exception, pytest.fail.Exception) as error:
            faults.append(f"{number} {kind} {mutation.__name__}: {error!r}"[:400])
    assert not faults, "\n".join(faults)
    assert raised > 200


@pytest.mark.stress
@pytest.mark.parametrize("kind", list(ACTIONS))
def test_random_damage_from_the_command_line(
    kind: str, originals: Originals, tmp_path: Path
) -> None:
    for number, mutation in enumerate((flip_bit, empty, make_folder, edit_json, nest)):
        trial = Trial(originals, kind, number, tmp_path / str(number))
        copy = tmp_path / str(number) / trial.source.name
        shutil.copytree(trial.source, copy)
        trial.mutate(copy, mutation, "study.json" if kind == "study" else "spec.json")
        text = ["abc"] if kind == "finished" else []
        assert exit_code([*COMMANDS[kind], str(copy), *text]) == 2
