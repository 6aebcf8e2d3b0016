"""A run interrupted at any point and resumed ends with the same bits as an uninterrupted one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kill_runs import differences
from tests.factories.toy_training import OPTION_SETS, ToyModel, ToyTask

from regard.core.errors import RegardError
from regard.training.callbacks import Outcome
from regard.training.checkpoint import parameters_step
from regard.training.loop import CHECKPOINT, METRICS, MODEL, train
from regard.training.options import TrainingOptions

SHORT: dict[str, Any] = {
    "steps": 24,
    "learning_rate": 0.01,
    "warmup_steps": 5,
    "evaluate_every": 7,
    "log_every": 3,
    "checkpoint_every": 5,
}


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The crashes are simulated inside this process, so that writes are visible without fsync."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class CrashError(Exception):
    """A crash that saves nothing."""


class Crashing:
    """A callback that raises at the nth event; without n it only counts events."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.events = at, 0

    def _count(self, *_: object) -> None:
        self.events += 1
        if self.events == self.at:
            raise CrashError

    on_train_begin: Callable[..., None] = _count
    on_step_end: Callable[..., None] = _count
    on_evaluate: Callable[..., None] = _count
    on_save: Callable[..., None] = _count

    def on_train_end(self, outcome: Outcome | None) -> None:
        """Not counted."""


def run(
    folder: Path,
    *,
    crash: Crashing | None = None,
    resume: bool = False,
    seed: int = 3,
    model: ToyModel | None = None,
    **options: Any,
) -> Outcome:
    return train(
        model=model or ToyModel(seed=seed),
        task=ToyTask(),
        options=TrainingOptions(**{**SHORT, **options}),
        folder=folder,
        seed=seed,
        callbacks=[crash] if crash else [],
        resume=resume,
    )


@pytest.mark.parametrize("number", range(len(OPTION_SETS)))
def test_crash_at_any_event(tmp_path: Path, number: int) -> None:
    """Every event is tried with one of the option sets."""
    mixture = OPTION_SETS[number]
    counting = Crashing()
    run(tmp_path / "alone", crash=counting, **mixture)
    assert counting.events > 40
    for event in range(1 + number, counting.events + 1, len(OPTION_SETS)):
        folder = tmp_path / f"crashed-{event}"
        with pytest.raises(CrashError):
            run(folder, crash=Crashing(event), **mixture)
        run(folder, resume=True, **mixture)
        assert differences(tmp_path / "alone", folder) == [], event


def test_repeated_crashes(tmp_path: Path) -> None:
    run(tmp_path / "alone")
    crashes = 0
    while crashes < 50:
        try:
            run(tmp_path / "crashed", crash=Crashing(9), resume=True)
        except CrashError:
            crashes += 1
        else:
            break
    assert 3 <= crashes < 50
    assert differences(tmp_path / "alone", tmp_path / "crashed") == []


def test_crash_before_the_first_checkpoint_restarts(tmp_path: Path) -> None:
    run(tmp_path / "alone")
    with pytest.raises(CrashError):
        run(tmp_path / "crashed", crash=Crashing(5))
    assert (tmp_path / "crashed" / METRICS).stat().st_size > 0
    assert not (tmp_path / "crashed" / CHECKPOINT).exists()
    run(tmp_path / "crashed", resume=True)
    assert differences(tmp_path / "alone", tmp_path / "crashed") == []


def test_model_file_missing_after_the_checkpoint_is_rewritten(tmp_path: Path) -> None:
    class AfterCheckpoint(Crashing):
        """Crashes between the checkpoint of the first evaluation and the model file."""

        def on_save(self, path: Path) -> None:
            if path.name == CHECKPOINT and self.events >= 7 + 1 + 1:
                raise CrashError
            self._count()

    run(tmp_path / "alone", averaging="last")
    with pytest.raises(CrashError):
        run(tmp_path / "crashed", crash=AfterCheckpoint(), averaging="last")
    assert not (tmp_path / "crashed" / MODEL).exists()
    with pytest.raises(CrashError):  # resuming writes it first
        run(tmp_path / "crashed", crash=Crashing(2), resume=True, averaging="last")
    assert parameters_step(tmp_path / "crashed" / MODEL) == 7
    run(tmp_path / "crashed", resume=True, averaging="last")
    assert differences(tmp_path / "alone", tmp_path / "crashed") == []


def test_patience_counts_over_sessions(tmp_path: Path) -> None:
    impatient: dict[str, Any] = {
        "patience": 1,
        "evaluate_every": 2,
        "learning_rate": 1e-30,
        "steps": 20,
    }
    alone = run(tmp_path / "alone", **impatient)
    assert alone.stop_reason == "patience"
    with pytest.raises(CrashError):
        run(tmp_path / "crashed", crash=Crashing(6), **impatient)
    outcome = run(tmp_path / "crashed", resume=True, **impatient)
    assert (outcome.stop_reason, outcome.steps) == ("patience", alone.steps)
    assert differences(tmp_path / "alone", tmp_path / "crashed") == []


def test_finished_run_returns_its_outcome(tmp_path: Path) -> None:
    first = run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    counting = Crashing()
    again = run(tmp_path, resume=True, crash=counting)
    assert counting.events == 1  # on_train_begin
    assert (again.steps, again.best, again.stop_reason) == (24, first.best, "budget")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_raised_budget(tmp_path: Path) -> None:
    run(tmp_path, schedule="constant")
    outcome = run(tmp_path, resume=True, steps=31, schedule="constant")
    assert outcome.steps == 31
    run(tmp_path / "long", steps=31, schedule="constant")
    # Only the logged rows show the end in between.
    assert set(differences(tmp_path, tmp_path / "long")) <= {
        METRICS,
        MODEL,
        f"{CHECKPOINT}: training state",
    }


def test_other_kind_of_budget(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, resume=True, steps=None, tokens=300).tokens >= 300


def test_lowered_budget_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(RegardError, match="steps=24; steps=20 is lower"):
        run(tmp_path, resume=True, steps=20)


def test_changed_options_are_refused(tmp_path: Path) -> None:
    run(tmp_path)
    message = r"learning_rate was 0\.01, is 0\.02, averaging was 'none', is 'last'"
    with pytest.raises(RegardError, match=message):
        run(tmp_path, resume=True, learning_rate=0.02, averaging="last")
    with pytest.raises(RegardError, match="seed was 3, is 4"):
        run(tmp_path, resume=True, seed=4)


def test_other_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    message = r"checkpoint\.safetensors' does not match the model: '.*' has shape"
    with pytest.raises(RegardError, match=message):
        run(tmp_path, resume=True, steps=30, model=ToyModel(width=9))


def test_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RegardError, match=r"checkpoint\.safetensors' was modified"):
        run(tmp_path, resume=True, steps=30)


def test_existing_run_needs_resume(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(RegardError, match="already contains a run"):
        run(tmp_path)


def test_missing_rows_are_detected(tmp_path: Path) -> None:
    with pytest.raises(CrashError):
        run(tmp_path, crash=Crashing(20))
    (tmp_path / METRICS).write_text("")
    with pytest.raises(RegardError, match=r"metrics\.jsonl' was modified"):
        run(tmp_path, resume=True)


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".regard.abc").write_text("half")
    run(tmp_path, resume=True)
    assert not (tmp_path / ".regard.abc").exists()
