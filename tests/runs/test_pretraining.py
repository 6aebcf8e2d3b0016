"""What a model learns first: inside a run, before it, and what is refused."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.spec import RunSpec, merged, settings_as_sections
from regard.runs.train import begin_run, resume_run
from regard.tasks.language_model.corpus import mixed_pairs
from regard.training.callbacks import Evaluation, Outcome, Start, StepTaken
from regard.training.checkpoint import unpack

PLACES = ("Rome", "Oslo", "Lima", "Bern")
NAMES = [
    f"{first} {last}" for first in ("Ann", "Bo", "Cy", "Di", "Ed") for last in ("Ax", "By", "Co")
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    facts = {name: PLACES[place % 4] for place, name in enumerate(NAMES)}
    text = tmp_path / "facts.txt"
    text.write_text(
        "".join(f"{name}. {name} was born in {place}.\n" for name, place in facts.items())
    )
    rows = [f"Where was {name} born?\t{place}\n" for name, place in facts.items()]
    (tmp_path / "train.tsv").write_text("".join(rows[:12]))
    (tmp_path / "dev.tsv").write_text("".join(rows[12:]))
    return {
        "text": str(text),
        "pairs": str(tmp_path / "train.tsv"),
        "validation": str(tmp_path / "dev.tsv"),
    }


def sections(files: dict[str, str], **changes: Any) -> dict[str, Any]:
    training = {"learning_rate": 3e-3, "warmup_steps": 2, "evaluate_every": 10}
    return merged(
        {
            "task": {
                "name": "recall",
                "pairs": files["pairs"],
                "validation": files["validation"],
                "source_tokens": "words",
                "target_tokens": "words",
            },
            "model": {"name": "decoder_only", "model_dim": 16, "num_heads": 2, "num_layers": 1},
            "pretraining": {
                "task": {
                    "name": "lm",
                    "text": files["text"],
                    "tokens": "words",
                    "validation_share": 0.0,
                    "pair_share": 0.3,
                },
                "training": {"steps": 12, **training, "keep": "last"},
            },
            "training": {"steps": 6, **training},
            "threads": 1,
        },
        changes,
    )


def test_a_run_reads_first_and_goes_on_with_those_weights(
    files: dict[str, str], tmp_path: Path
) -> None:
    told: list[str] = []
    folder = RunFolder(tmp_path / "run")
    spec = RunSpec.from_sections(sections(files))
    record = begin_run(spec, folder, tell=told.append)
    assert record is not None
    assert set(record["scores"]["validation"]) == {"exact_match", "loss"}
    assert record["baselines"]["validation"] == {"always 'Rome'": pytest.approx(100 / 3)}
    assert folder.pretraining.record.is_file()
    assert folder.read_json(folder.vocabulary) == folder.pretraining.read_json(
        folder.pretraining.vocabulary
    )
    assert any("tensors start from" in line for line in told)
    assert RunSpec.from_sections(folder.read_json(folder.spec)) == spec


def test_the_weights_are_those_of_the_run_before(files: dict[str, str], tmp_path: Path) -> None:
    """With a learning rate of nearly 0, what comes out is what was read in."""
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    still = merged(
        sections(files, training={"learning_rate": 1e-12}),
        {"pretraining": "none", "start": str(whole.pretraining.path)},
    )
    after = RunFolder(tmp_path / "after")
    assert begin_run(RunSpec.from_sections(still), after) is not None
    before, _ = unpack(whole.pretraining.model, way_out="")
    now, _ = unpack(after.model, way_out="")
    assert before.keys() == now.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(now[name], tensor, rtol=0, atol=1e-9)


class StopAt:
    """Ends a run as Ctrl-C does, at a step of its training or of its pre-training."""

    def __init__(self, step: int) -> None:
        self.step, self.seen = step, 0

    def started(self, info: Start) -> None: ...

    def evaluated(self, info: Evaluation) -> None: ...

    def saved(self, path: Path) -> None: ...

    def ended(self, outcome: Outcome | None) -> None: ...

    def stepped(self, info: StepTaken) -> None:
        self.seen += 1
        if self.seen == self.step:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("step", [5, 15])
def test_a_stopped_run_ends_in_the_same_bits(
    step: int, files: dict[str, str], tmp_path: Path
) -> None:
    spec = RunSpec.from_sections(sections(files))
    straight, stopped = RunFolder(tmp_path / "straight"), RunFolder(tmp_path / "stopped")
    begin_run(spec, straight)
    assert begin_run(spec, stopped, watchers=[StopAt(step)]) is None
    assert resume_run(stopped) is not None
    assert stopped.model.read_bytes() == straight.model.read_bytes()
    assert stopped.metrics.read_bytes() == straight.metrics.read_bytes()


def test_what_is_held_out_is_left_out_of_the_pre_training(files: dict[str, str]) -> None:
    """Where the questions are parted by a hash, those that are scored are not mixed in."""
    own = sections(files, task={"validation": None, "validation_share": 0.3, "test_share": 0.2})
    spec = RunSpec.from_sections(own)
    assert spec.pretraining is not None
    assert spec.pretraining.task_options.pairs == files["pairs"]
    assert spec.pretraining.task_options.pairs_validation_share == 0.3
    assert spec.pretraining.task_options.pairs_test_share == 0.2
    task = build_task(spec)
    mixed = build_task(spec.pretraining).corpus
    learned = {
        mixed.vocabularies.source.decode(mixed.pairs.source(row).tolist())
        for row in range(len(mixed.pairs))
    }
    assert learned
    assert learned.isdisjoint({*task.corpus.validation.sources, *task.corpus.test.sources})


@pytest.mark.parametrize(
    "changes",
    [
        {"lowercase": "both"},
        {"source_column": "question", "target_column": "answer", "header": True},
    ],
)
def test_the_pairs_are_read_as_the_task_reads_them(
    changes: dict[str, Any], files: dict[str, str], tmp_path: Path
) -> None:
    pairs = tmp_path / "all.tsv"
    rows = [(f"Where was Name Number {n} born ?", PLACES[n % 4]) for n in range(60)]
    if "header" in changes:
        lines = ["answer\tquestion", *(f"{answer}\t{question}" for question, answer in rows)]
    else:
        lines = ["\t".join(row) for row in rows]
    pairs.write_text("\n".join(lines) + "\n")
    own = {
        "pairs": str(pairs),
        "validation": None,
        "validation_share": 0.3,
        "test_share": 0.2,
        **changes,
    }
    for asked in ({}, {"pretraining": {"task": {"pairs": str(pairs)}}}):
        spec = RunSpec.from_sections(sections(files, task=own, **asked))
        assert spec.pretraining is not None
        task, mixed = build_task(spec).corpus, build_task(spec.pretraining).corpus
        held_out = {source.lower() for source in (*task.validation.sources, *task.test.sources)}
        assert len(mixed.pairs) + len(held_out) == 60
        options = spec.pretraining.task_options
        learned = {question.lower() for question, _ in mixed_pairs(options, BadRows())}
        assert learned.isdisjoint(held_out)


def test_what_the_runs_before_have_learned_is_told(files: dict[str, str], tmp_path: Path) -> None:
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    told: list[str] = []
    # The questions that are now held out are those that were learned.
    swapped = sections(files, task={"pairs": files["validation"], "validation": files["pairs"]})
    again = merged(swapped, {"pretraining": "none", "start": str(whole.path)})
    record = begin_run(
        RunSpec.from_sections(again), RunFolder(tmp_path / "again"), tell=told.append
    )
    assert record is not None
    assert record["held_out_learned_before"] == {"validation": 12, "test": 0}
    assert any(line.startswith("12 validation sources were learned") for line in told)


def test_a_pre_training_of_another_run_is_not_taken(files: dict[str, str], tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    begin_run(RunSpec.from_sections(sections(files)), folder)
    for path in folder.path.iterdir():
        if path.is_file():
            path.unlink()
    other = sections(files, pretraining={"training": {"steps": 3}})
    with pytest.raises(RegardError, match="holds another pre-training"):
        begin_run(RunSpec.from_sections(other), folder)
    assert begin_run(RunSpec.from_sections(sections(files)), folder) is not None


def test_a_mistake_in_the_second_part_is_found_before_the_first(
    files: dict[str, str], tmp_path: Path
) -> None:
    spec = RunSpec.from_sections(sections(files, task={"validation": "nowhere.tsv"}))
    with pytest.raises(RegardError, match=r"There is no file 'nowhere\.tsv'"):
        begin_run(spec, RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_settings_reach_the_pre_training() -> None:
    assert settings_as_sections(["pretraining.training.steps=7", "pretraining.task.films=9"]) == {
        "pretraining": {"training": {"steps": 7}, "task": {"films": 9}}
    }
    assert settings_as_sections(["pretraining=none"]) == {"pretraining": "none"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pretraining": {"model": {}}}, "Unknown section of pretraining 'model'"),
        ({"pretraining": {"task": {"name": "lmm"}}}, "In pretraining: Unknown task 'lmm'"),
        ({"pretraining": {"task": {"spam": 1}}}, "In pretraining: Unknown option 'task.spam'"),
        ({"start": "runs/lm-1"}, "starts from 'runs/lm-1' and has a section 'pretraining' too"),
        ({"start": 3, "pretraining": "none"}, "start=3: it must be the folder of a finished run"),
        (
            {"model": {"name": "text_encoder"}},
            "cannot learn the task 'recall', which gives it pairs",
        ),
        ({"task": {"shared_vocabulary": False}, "pretraining": "none"}, None),
    ],
)
def test_what_cannot_be_asked_for(
    files: dict[str, str], changes: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    def asked() -> None:
        begin_run(RunSpec.from_sections(sections(files, **changes)), RunFolder(tmp_path / "run"))

    with pytest.raises(RegardError) as refusal:
        asked()
    assert (message or "reads source and target as one sequence") in str(refusal.value)


def test_another_width_cannot_start_from_it(files: dict[str, str], tmp_path: Path) -> None:
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    start = {"pretraining": "none", "start": str(whole.pretraining.path)}
    wider = merged(sections(files), {**start, "model": {"model_dim": 32}})
    with pytest.raises(RegardError, match=r"has the shape \(\d+, 16\) there and \(\d+, 32\) here"):
        begin_run(RunSpec.from_sections(wider), RunFolder(tmp_path / "wider"))
    assert not (tmp_path / "wider").exists()
    nowhere = merged(sections(files), {"pretraining": "none", "start": str(tmp_path)})
    with pytest.raises(RegardError, match="is not a run: it has no"):
        begin_run(RunSpec.from_sections(nowhere), RunFolder(tmp_path / "other"))


def test_what_was_read_can_be_gone_on_with(files: dict[str, str], tmp_path: Path) -> None:
    whole = RunFolder(tmp_path / "whole")
    begin_run(RunSpec.from_sections(sections(files)), whole)
    reader, answerer = load(whole.pretraining.path), load(whole.path)
    pieces = list(reader.continued("Ann Ax", max_tokens=5, seed=3))
    assert "".join(pieces) == "".join(reader.continued("Ann Ax", max_tokens=5, seed=3))
    with pytest.raises(RegardError, match="does not go on with it"):
        next(answerer.continued("Ann"))
    assert len(answerer.predict(["Where was Ann Ax born?"])) == 1
    scores = reader.score(files["text"])
    assert set(scores) == {"loss", "perplexity"}  # of words
    with pytest.raises(RegardError, match="columns=2: files of the task 'lm' have no such thing"):
        reader.score(files["text"], columns=2)
