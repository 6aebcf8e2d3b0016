"""One run of a study: begun, gone on with, found finished; the corpus kept between runs."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.factories.jobs import toy_job, without_times
from tests.factories.toy_language import tiny_sections

from regard.core.errors import RegardError
from regard.runs import build
from regard.runs.folder import RunFolder, evaluations
from regard.runs.spec import RunSpec
from regard.runs.train import begin_run
from regard.studies.execution import jobs as one_run
from regard.studies.execution.jobs import Job, execute
from regard.tasks.seq2seq.corpus import PairCorpus
from regard.training.callbacks import StepTaken
from regard.training.process import folder_locked


class Stop:
    """Interrupts a run after its second step, as Ctrl-C does."""

    def stepped(self, info: StepTaken) -> None:
        if info.step == 2:
            signal.raise_signal(signal.SIGINT)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def done(job: Job, **words: Any) -> bool:
    return execute(job.sections, job.folder, job.plugins, **words)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with a word whenever files are read; nothing is kept from other tests."""
    monkeypatch.setattr(one_run, "_kept", {})
    found: list[str] = []

    class Counting(PairCorpus):
        @classmethod
        def read(cls, *arguments: Any, **words: Any) -> Any:
            found.append("read")
            return PairCorpus.read(*arguments, **words)

    monkeypatch.setattr("regard.tasks.seq2seq.task.PairCorpus", Counting)
    return found


def test_it_ends_as_a_run_that_was_begun_alone(tmp_path: Path) -> None:
    job = toy_job(tmp_path / "study")
    assert done(job)
    alone = RunFolder(tmp_path / "alone")
    begin_run(RunSpec.from_sections(job.sections), alone)
    assert without_times(job.folder) == without_times(alone.path)


def test_runs_with_the_same_data_read_it_once(tmp_path: Path, reads: list[str]) -> None:
    for seed in range(3):
        assert done(toy_job(tmp_path, seed=seed, task={"beam_size": 1 + seed}))
    assert reads == ["read"]
    assert done(toy_job(tmp_path, key="other", task={"validation_share": 0.2}))
    assert reads == ["read", "read"]


def test_a_kept_corpus_changes_nothing(tmp_path: Path, reads: list[str]) -> None:
    first, second = toy_job(tmp_path, seed=0), toy_job(tmp_path, seed=1)
    done(first)
    done(second)
    alone = RunFolder(tmp_path / "alone")
    begin_run(RunSpec.from_sections(second.sections), alone)
    assert without_times(second.folder) == without_times(alone.path)


def test_a_stopped_run_goes_on_without_reading_again(tmp_path: Path, reads: list[str]) -> None:
    whole, stopped = toy_job(tmp_path, key="whole"), toy_job(tmp_path, key="stopped")
    assert done(whole)
    assert not done(stopped, watchers=[Stop()])
    assert not stopped.is_finished
    assert done(stopped)
    assert without_times(stopped.folder) == without_times(whole.folder)
    assert reads == ["read"]


def test_a_finished_run_is_left_alone(tmp_path: Path, reads: list[str]) -> None:
    job = toy_job(tmp_path)
    job.folder.mkdir(parents=True)
    (job.folder / "record.json").write_text("{}")
    assert done(job)
    assert not reads
    assert [file.name for file in job.folder.iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    "left", [["vocabulary.json"], ["vocabulary.json", "data.json", "spec.json"]]
)
def test_what_a_killed_process_had_just_begun_is_begun_anew(
    tmp_path: Path, left: list[str]
) -> None:
    whole, job = toy_job(tmp_path, key="whole"), toy_job(tmp_path, key="half")
    done(whole)
    job.folder.mkdir(parents=True)
    for name in left:
        (job.folder / name).write_bytes((whole.folder / name).read_bytes())
    (job.folder / "metrics.jsonl").write_text('{"step": 1}\n')
    (job.folder / ".regard.half").write_text("{")
    assert done(job)
    assert without_times(job.folder) == without_times(whole.folder)
    assert not (job.folder / ".regard.half").exists()


def test_a_checkpoint_of_another_spec_is_refused(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    done(job, watchers=[Stop()])
    other = toy_job(tmp_path, model={"hidden_dim": 9})
    with pytest.raises(
        RegardError, match=r"run0' holds a run with another spec .* Remove the folder"
    ):
        done(other)


def test_a_folder_in_use_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_run, "SECONDS_TO_WAIT", 0.0)
    job = toy_job(tmp_path)
    with (
        folder_locked(job.folder),
        pytest.raises(RegardError, match="Another process is training"),
    ):
        done(job)
    assert done(job)


def test_a_mistake_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="max_length=1"):
        done(toy_job(tmp_path, model={"mechanism": "location", "max_length": 1}))
    assert not (tmp_path / "runs" / "run0").exists()


def test_operations_are_counted_whatever_the_budget(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    done(job)
    spec = RunSpec.from_sections(job.sections)
    task = build.build_task(spec)
    model = build.build_spec_model(spec, task.corpus.vocabularies)
    steps, operations, epoch = 6, 0, 0
    while steps:
        for batch in task.epoch(epoch):
            if steps:
                operations += build.operations_of(model, task.cost_words(batch))
                steps -= 1
        epoch += 1
    outcome = json.loads((job.folder / "record.json").read_text())["outcome"]
    assert outcome["operations"] == operations > 0


def test_evaluations_say_what_was_spent(tmp_path: Path) -> None:
    sections = tiny_sections(tmp_path / "words.dict", training={"log_every": 4})
    toy_job(tmp_path)
    folder = RunFolder(tmp_path / "run")
    record = begin_run(RunSpec.from_sections(sections), folder)
    assert record is not None
    outcome = record["outcome"]
    first, last = evaluations(folder)
    assert (first.step, last.step) == (3, 6)
    assert 0 < first.tokens < last.tokens == outcome["tokens"]
    assert 0 < first.operations < last.operations == outcome["operations"]
    assert 0 < first.seconds < last.seconds <= outcome["seconds"]
    assert last.scores == outcome["last"]


def test_rows_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics.write_text('{"step": 3, "validation": {"wer": 1.0}}\n')
    folder.timing.write_text("")
    with pytest.raises(RegardError, match=r"do not fit, or rows are missing \(3\)"):
        evaluations(folder)
