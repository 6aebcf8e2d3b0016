"""Jobs: started, resumed, already finished; cached datasets; learning curves."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.factories.jobs import comparable_outputs, toy_job
from tests.factories.toy_pronunciation import tiny_sections

from regard.core.errors import RegardError
from regard.data.dataset import Dataset
from regard.runs import build
from regard.runs.folder import RunFolder, evaluations
from regard.runs.spec import RunSpec
from regard.runs.train import begin_run
from regard.studies.execution import jobs
from regard.studies.execution.jobs import Job, run_job
from regard.training.callbacks import StepMetrics
from regard.training.process import folder_lock


class Stop:
    """Interrupts a run after its second step, as Ctrl-C does."""

    def on_step_end(self, info: StepMetrics) -> None:
        if info.step == 2:
            signal.raise_signal(signal.SIGINT)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def done(job: Job, **words: Any) -> bool:
    return run_job(job.sections, job.folder, job.plugins, **words)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records every read of the data files; the cache of other tests is cleared."""
    monkeypatch.setattr(jobs, "_dataset_cache", {})
    found: list[str] = []
    read = Dataset.read

    def counting(*arguments: Any, **words: Any) -> Any:
        found.append("read")
        return read(*arguments, **words)

    monkeypatch.setattr(Dataset, "read", counting)
    return found


def test_job_equals_a_single_run(tmp_path: Path) -> None:
    job = toy_job(tmp_path / "study")
    assert done(job)
    alone = RunFolder(tmp_path / "alone")
    begin_run(RunSpec.from_sections(job.sections), alone)
    assert comparable_outputs(job.folder) == comparable_outputs(alone.path)


def test_same_data_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    for seed in range(3):
        assert done(toy_job(tmp_path, seed=seed, task={"beam_size": 1 + seed}))
    assert reads == ["read"]
    assert done(toy_job(tmp_path, key="other", task={"validation_fraction": 0.2}))
    assert reads == ["read", "read"]


def test_cached_dataset_gives_the_same_bits(tmp_path: Path, reads: list[str]) -> None:
    first, second = toy_job(tmp_path, seed=0), toy_job(tmp_path, seed=1)
    done(first)
    done(second)
    alone = RunFolder(tmp_path / "alone")
    begin_run(RunSpec.from_sections(second.sections), alone)
    assert comparable_outputs(second.folder) == comparable_outputs(alone.path)


def test_stopped_run_resumes_with_the_cached_dataset(tmp_path: Path, reads: list[str]) -> None:
    whole, stopped = toy_job(tmp_path, key="whole"), toy_job(tmp_path, key="stopped")
    assert done(whole)
    assert not done(stopped, callbacks=[Stop()])
    assert not stopped.is_finished
    assert done(stopped)
    assert comparable_outputs(stopped.folder) == comparable_outputs(whole.folder)
    assert reads == ["read"]


def test_finished_run_is_unchanged(tmp_path: Path, reads: list[str]) -> None:
    job = toy_job(tmp_path)
    assert done(job)
    reads.clear()
    before = {file.name: file.stat().st_mtime_ns for file in job.folder.iterdir()}
    assert done(job)
    assert not reads
    assert {file.name: file.stat().st_mtime_ns for file in job.folder.iterdir()} == before


@pytest.mark.parametrize(
    "left", [["preprocessor.json"], ["preprocessor.json", "data.json", "spec.json"]]
)
def test_run_without_checkpoint_restarts(tmp_path: Path, left: list[str]) -> None:
    whole, job = toy_job(tmp_path, key="whole"), toy_job(tmp_path, key="half")
    done(whole)
    job.folder.mkdir(parents=True)
    for name in left:
        (job.folder / name).write_bytes((whole.folder / name).read_bytes())
    (job.folder / "metrics.jsonl").write_text('{"step": 1}\n')
    (job.folder / ".regard.half").write_text("{")
    assert done(job)
    assert comparable_outputs(job.folder) == comparable_outputs(whole.folder)
    assert not (job.folder / ".regard.half").exists()


def test_checkpoint_of_another_spec_is_refused(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    done(job, callbacks=[Stop()])
    other = toy_job(tmp_path, model={"hidden_dim": 9})
    with pytest.raises(RegardError, match=r"run0' contains another run"):
        done(other)


def test_locked_folder_is_refused_after_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LOCK_TIMEOUT", 0.0)
    job = toy_job(tmp_path)
    with (
        folder_lock(job.folder),
        pytest.raises(RegardError, match="Another process is training"),
    ):
        done(job)
    assert done(job)


def test_error_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="max_length=1"):
        done(toy_job(tmp_path, model={"mechanism": "location", "max_length": 1}))
    assert not (tmp_path / "runs" / "run0").exists()


def test_flops_are_counted_for_any_budget(tmp_path: Path) -> None:
    job = toy_job(tmp_path)
    done(job)
    spec = RunSpec.from_sections(job.sections)
    task = build.build_task(spec)
    model = build.build_spec_model(spec, task.dataset.preprocessor)
    steps, flops, epoch = 6, 0, 0
    while steps:
        for batch in task.epoch(epoch):
            if steps:
                flops += build.count_flops(model, task, batch)
                steps -= 1
        epoch += 1
    outcome = json.loads((job.folder / "record.json").read_text())["outcome"]
    assert outcome["flops"] == pytest.approx(flops, rel=0.005)


def test_learning_curve(tmp_path: Path) -> None:
    sections = tiny_sections(tmp_path / "words.dict", training={"log_every": 4})
    toy_job(tmp_path)
    folder = RunFolder(tmp_path / "run")
    record = begin_run(RunSpec.from_sections(sections), folder)
    assert record is not None
    outcome = record["outcome"]
    first, last = evaluations(folder)
    assert (first.step, last.step) == (3, 6)
    assert 0 < first.tokens < last.tokens == outcome["tokens"]
    assert 0 < first.flops < last.flops == outcome["flops"]
    assert 0 < first.seconds < last.seconds == pytest.approx(outcome["seconds"], abs=1e-3)
    assert last.scores == outcome["last"]


def test_mismatched_rows_are_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.manifest.create()
    folder.write(folder.metrics, '{"step": 3, "validation": {"wer": 1.0}}\n')
    folder.write(folder.timing, "")
    with pytest.raises(RegardError, match=r"rows are missing \(3\)"):
        evaluations(folder)
