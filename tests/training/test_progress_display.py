"""What is shown of a run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.factories.toy_training import ToyModel, ToyTask

from regard.training.callbacks import ProgressDisplay
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
        watchers=[ProgressDisplay(console)],
        resume=True,
    )
    return text.getvalue()


def test_without_a_terminal_a_line_an_evaluation(tmp_path: Path) -> None:
    folder = tmp_path / "[bold]"
    lines = shown(folder, terminal=False).splitlines()
    assert len(lines) == 3
    assert lines[0] == f"training 235 parameters in {folder}"
    assert lines[1].startswith("step 10  ")
    for word in (" tokens/s", "loss ", "left 0:00:0", "error ", "right ", "(best so far)"):
        assert word in lines[1]


def test_in_a_terminal_a_bar(tmp_path: Path) -> None:
    text = shown(tmp_path, terminal=True)
    assert "100%  step 20" in text
    assert "(best " in text
    assert "━" in text


def test_a_resumed_and_a_finished_run_say_so(tmp_path: Path) -> None:
    shown(tmp_path, terminal=False)
    text = shown(tmp_path, terminal=False)
    assert text == (f"{tmp_path} is finished: its budget was used up at step 20\n")
    assert "going on after step 20" in shown(tmp_path, terminal=False, steps=30)


def test_an_error_closes_the_bar(tmp_path: Path) -> None:
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
            watchers=[display],
        )
    assert display.progress is None
