"""The progress display and the TensorBoard logger."""

from __future__ import annotations

import io
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.factories.toy_training import ToyModel, ToyTask

from regard.core.errors import RegardError
from regard.training.callbacks import Evaluation, ProgressDisplay, TensorBoard
from regard.training.loop import train
from regard.training.options import TrainingOptions


def shown(folder: Path, *, terminal: bool, **options: Any) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=150, color_system=None)
    train(
        model=ToyModel(),
        task=ToyTask(),
        options=TrainingOptions(**{"steps": 20, "evaluate_every": 10, **options}),
        folder=folder,
        seed=1,
        callbacks=[ProgressDisplay(console)],
        resume=True,
    )
    return text.getvalue()


def test_one_line_per_evaluation_without_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "[bold]"
    lines = shown(folder, terminal=False).splitlines()
    assert len(lines) == 3
    assert lines[0] == f"training 235 parameters in {folder}"
    assert lines[1].startswith("step 10  ")
    for word in (
        " tokens/s",
        "training loss ",
        "learning rate ",
        "left 0:00:0",
        "error ",
        "accuracy ",
        "(best so far)",
    ):
        assert word in lines[1]


def test_lines_between_evaluations_without_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count(step=10.0)
    monkeypatch.setattr("regard.training.callbacks.time.monotonic", lambda: next(seconds))
    lines = shown(tmp_path, terminal=False, evaluate_every=100).splitlines()
    steps = [line.split()[1] for line in lines if line.startswith("step ")]
    assert len(steps) > 2  # one evaluation, at the end
    assert all(word in lines[1] for word in ("training loss ", "learning rate ", "left "))


def test_validation_loss_is_named_apart() -> None:
    text = io.StringIO()
    display = ProgressDisplay(Console(file=text, force_terminal=False, width=150))
    display.on_evaluate(Evaluation(1, {"loss": 0.5, "error": 2.0}, "loss", True, 0.5))
    assert text.getvalue() == "validation loss 0.5  error 2\n"


def test_bar_in_terminal(tmp_path: Path) -> None:
    text = shown(tmp_path, terminal=True)
    assert "100%  step 20" in text
    assert "(best " in text
    assert "━" in text


def test_finished_and_resumed_run(tmp_path: Path) -> None:
    shown(tmp_path, terminal=False)
    text = shown(tmp_path, terminal=False)
    assert text == f"{tmp_path} is finished: its budget is exhausted at step 20\n"
    assert "resumed after step 20" in shown(tmp_path, terminal=False, steps=30)


def test_error_closes_the_bar(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=150)
    display = ProgressDisplay(console)

    class Failing(ToyTask):
        def loss(self, model: Any, batch: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(
            model=ToyModel(),
            task=Failing(),
            options=TrainingOptions(steps=2),
            folder=tmp_path,
            seed=1,
            callbacks=[display],
        )
    assert display.progress is None


def test_scalars(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    outcome = train(
        model=ToyModel(),
        task=ToyTask(),
        options=TrainingOptions(steps=6, evaluate_every=3, log_every=2),
        folder=tmp_path,
        seed=1,
        callbacks=[TensorBoard(tmp_path / "tensorboard")],
    )
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("training/training_loss")] == [2, 4, 6]
    errors = events.Scalars("validation/error")
    assert [event.step for event in errors] == [3, 6]
    assert errors[-1].value == pytest.approx(outcome.last["error"])


def test_missing_tensorboard_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoard(tmp_path)
