"""Scalars that TensorBoard can read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.factories.toy_training import ToyModel, ToyTask

from regard.core.errors import RegardError
from regard.training.callbacks import TensorBoard
from regard.training.loop import train
from regard.training.options import TrainingOptions


def test_scalars(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    outcome = train(
        model=ToyModel(),
        task=ToyTask(),
        options=TrainingOptions(steps=6, evaluate_every=3, log_every=2),
        folder=tmp_path,
        seed=1,
        watchers=[TensorBoard(tmp_path / "tensorboard")],
    )
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("training/loss")] == [2, 4, 6]
    errors = events.Scalars("validation/error")
    assert [event.step for event in errors] == [3, 6]
    assert errors[-1].value == pytest.approx(outcome.last["error"])


def test_without_it_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoard(tmp_path)
