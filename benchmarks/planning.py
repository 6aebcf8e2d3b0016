"""The bar of the planner: predicted seconds a training step against a training that is really run.

Shipped recipes on their own data, two threads. The machine is calibrated anew, and a run of a few dozen
steps goes through the training loop; its first steps, in which memory is taken and kernels are chosen,
are left out.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import Finding
from regard.core.errors import RegardError
from regard.costs.calibration import Calibration, calibrate
from regard.runs.build import build_spec_model, build_task
from regard.runs.plan import plan_run
from regard.runs.spec import RunSpec, merged, read_recipe
from regard.tasks.task import RunTask
from regard.training.callbacks import Evaluation, Outcome, Start, StepTaken
from regard.training.loop import train

THREADS = 2
STEPS = 60
LEFT_OUT = 15
BAR = 1.25
RECIPES = ("pronounce-quick", "translate", "translate-recurrent")


class StepTimes:
    """A watcher that notes when each step ended."""

    def __init__(self) -> None:
        self.ended_at: list[float] = []

    def started(self, info: Start) -> None:
        """Nothing to note."""

    def stepped(self, info: StepTaken) -> None:
        """After every step."""
        self.ended_at.append(time.perf_counter())

    def evaluated(self, scores: Evaluation) -> None:
        """Nothing to note."""

    def saved(self, path: Path) -> None:
        """Nothing to note."""

    def ended(self, outcome: Outcome | None) -> None:
        """Nothing to note."""

    def mean(self) -> float:
        """Seconds a step, without the first."""
        return (self.ended_at[-1] - self.ended_at[LEFT_OUT]) / (len(self.ended_at) - 1 - LEFT_OUT)


def planning() -> Iterator[Finding]:
    """One figure a recipe: the larger of predicted and measured over the smaller."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        calibration = calibrate()
        for recipe in RECIPES:
            yield _finding(recipe, calibration)
    finally:
        torch.set_num_threads(threads)


def _finding(recipe: str, calibration: Calibration) -> Finding:
    sections = read_recipe(recipe)
    if sections["task"]["name"] == "translate":
        sections = merged(sections, {"task": _multi30k_files()})
    spec = RunSpec.from_sections(sections)
    task = build_task(spec)
    predicted = plan_run(spec, task, calibration, evaluated=False).seconds_per_step
    measured = _measured(spec, task)
    return Finding(
        f"a step of {recipe}, predicted against measured",
        max(predicted / measured, measured / predicted),
        BAR,
        larger_is_better=False,
        detail=f"{1000 * predicted:.0f} ms predicted, {1000 * measured:.0f} ms measured",
    )


def _measured(spec: RunSpec, task: RunTask) -> float:
    options = replace(spec.training, steps=STEPS, evaluate_every=10 * STEPS)
    times = StepTimes()
    # The evaluation after the last step is not what is measured, and would take long.
    setattr(task, "evaluate", lambda _: {task.metric: 0.0})  # noqa: B010 — no method is meant
    with tempfile.TemporaryDirectory() as folder:
        train(
            model=build_spec_model(spec, task.corpus.vocabularies),
            task=task,
            options=options,
            folder=Path(folder),
            seed=spec.seed,
            watchers=[times],
        )
    return times.mean()


def _multi30k_files() -> dict[str, Any]:
    folder = os.environ.get("REGARD_DATA")
    if not folder:
        raise RegardError(
            "The benchmark of planning reads multi30k/, and REGARD_DATA names no folder. Set it to the "
            "folder of corpora, or name the other benchmarks."
        )
    files = Path(folder) / "multi30k"
    return {
        name: f"{files / part}.de.gz,{files / part}.en.gz"
        for name, part in {"pairs": "train", "validation": "val"}.items()
    }
