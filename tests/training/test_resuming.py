"""A run that stopped anywhere and went on ends with the same bits as one that did not stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kill_runs import differences
from tests.factories.toy_training import MIXTURES, ToyModel, ToyTask

from regard.core.errors import RegardError
from regard.training.callbacks import Outcome
from regard.training.checkpoint import weights_step
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
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """These runs die within a process that lives on, so what they wrote is there either way."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class CrashError(Exception):
    """A death without a last word: nothing is saved on the way out."""


class Crashing:
    """A watcher that raises when it is told for the nth time; without n it only counts."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.told = at, 0

    def _count(self, *_: object) -> None:
        self.told += 1
        if self.told == self.at:
            raise CrashError

    started: Callable[..., None] = _count
    stepped: Callable[..., None] = _count
    evaluated: Callable[..., None] = _count
    saved: Callable[..., None] = _count

    def ended(self, outcome: Outcome | None) -> None:
        """Does not count: the run is over."""


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
        watchers=[crash] if crash else [],
        resume=resume,
    )


@pytest.mark.parametrize("number", range(len(MIXTURES)))
def test_crashed_at_any_moment_it_ends_the_same(tmp_path: Path, number: int) -> None:
    """Every moment is tried with one of the mixtures."""
    mixture = MIXTURES[number]
    counting = Crashing()
    run(tmp_path / "alone", crash=counting, **mixture)
    assert counting.told > 40
    for moment in range(1 + number, counting.told + 1, len(MIXTURES)):
        folder = tmp_path / f"crashed-{moment}"
        with pytest.raises(CrashError):
            run(folder, crash=Crashing(moment), **mixture)
        run(folder, resume=True, **mixture)
        assert differences(tmp_path / "alone", folder) == [], moment


def test_crashed_again_and_again_it_ends_the_same(tmp_path: Path) -> None:
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


def test_crashed_before_the_first_checkpoint_it_begins_anew(tmp_path: Path) -> None:
    run(tmp_path / "alone")
    with pytest.raises(CrashError):
        run(tmp_path / "crashed", crash=Crashing(5))
    assert (tmp_path / "crashed" / METRICS).stat().st_size > 0
    assert not (tmp_path / "crashed" / CHECKPOINT).exists()
    run(tmp_path / "crashed", resume=True)
    assert differences(tmp_path / "alone", tmp_path / "crashed") == []


def test_kept_weights_lost_after_the_checkpoint_are_written_again(tmp_path: Path) -> None:
    class AfterCheckpoint(Crashing):
        """Crashes when the checkpoint of the first evaluation is written, the weights not yet."""

        def saved(self, path: Path) -> None:
            if path.name == CHECKPOINT and self.told >= 7 + 1 + 1:
                raise CrashError
            self._count()

    run(tmp_path / "alone", averaging="last")
    with pytest.raises(CrashError):
        run(tmp_path / "crashed", crash=AfterCheckpoint(), averaging="last")
    assert not (tmp_path / "crashed" / MODEL).exists()
    with pytest.raises(CrashError):  # it begins by writing them
        run(tmp_path / "crashed", crash=Crashing(2), resume=True, averaging="last")
    assert weights_step(tmp_path / "crashed" / MODEL) == 7
    run(tmp_path / "crashed", resume=True, averaging="last")
    assert differences(tmp_path / "alone", tmp_path / "crashed") == []


def test_patience_is_counted_over_sessions(tmp_path: Path) -> None:
    impatient: dict[str, Any] = {
        "patience": 1,
        "evaluate_every": 2,
        "learning_rate": 1e-30,
        "steps": 20,
    }
    alone = run(tmp_path / "alone", **impatient)
    assert alone.stopped == "patience"
    with pytest.raises(CrashError):
        run(tmp_path / "crashed", crash=Crashing(6), **impatient)
    outcome = run(tmp_path / "crashed", resume=True, **impatient)
    assert (outcome.stopped, outcome.steps) == ("patience", alone.steps)
    assert differences(tmp_path / "alone", tmp_path / "crashed") == []


def test_a_finished_run_tells_its_outcome_again_and_is_not_trained(tmp_path: Path) -> None:
    first = run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    counting = Crashing()
    again = run(tmp_path, resume=True, crash=counting)
    assert counting.told == 1  # that it started
    assert (again.steps, again.best, again.stopped) == (24, first.best, "budget")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_raised_budget_goes_on(tmp_path: Path) -> None:
    run(tmp_path, schedule="constant")
    outcome = run(tmp_path, resume=True, steps=31, schedule="constant")
    assert outcome.steps == 31
    run(tmp_path / "long", steps=31, schedule="constant")
    # The weights of a run that was meant to be long; only the rows tell of the end in between.
    assert set(differences(tmp_path, tmp_path / "long")) <= {
        METRICS,
        MODEL,
        f"{CHECKPOINT}: its counters",
    }


def test_another_kind_of_budget_goes_on(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, resume=True, steps=None, tokens=300).tokens >= 300


def test_a_lowered_budget_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(RegardError, match=r"begun with steps=24, and steps=20 is less"):
        run(tmp_path, resume=True, steps=20)


def test_other_options_are_refused_and_named(tmp_path: Path) -> None:
    run(tmp_path)
    message = (
        r"begun with other options: learning_rate was 0\.01, is 0\.02, averaging was 'none', is 'last'"
        r"\. On resuming, only the budgets may change \(steps, tokens, seconds, operations\)"
    )
    with pytest.raises(RegardError, match=message):
        run(tmp_path, resume=True, learning_rate=0.02, averaging="last")
    with pytest.raises(RegardError, match="seed was 3, is 4"):
        run(tmp_path, resume=True, seed=4)


def test_another_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    message = r"checkpoint.safetensors' does not fit the model: '.*' has shape .*Build the model"
    with pytest.raises(RegardError, match=message):
        run(tmp_path, resume=True, steps=30, model=ToyModel(width=9))


def test_a_broken_checkpoint_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RegardError, match=r"checkpoint.safetensors' is not a whole .* Remove it"):
        run(tmp_path, resume=True, steps=30)


def test_a_run_is_not_begun_on_top_of_another(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(RegardError, match=r"holds a run already\. Resume it, or train in another"):
        run(tmp_path)


def test_lost_rows_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(CrashError):
        run(tmp_path, crash=Crashing(20))
    (tmp_path / METRICS).write_text("")
    with pytest.raises(RegardError, match=r"metrics.jsonl' has 0 bytes and had"):
        run(tmp_path, resume=True)


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".regard.abc").write_text("half")
    run(tmp_path, resume=True)
    assert not (tmp_path / ".regard.abc").exists()
