"""The planner: predicted seconds per training step against a real training run.

Built-in recipes on their own data, two threads. The machine is calibrated first; the first steps of each
run, in which memory is allocated and kernels are selected, are excluded.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.measurement import Measurement
from regard.core.errors import RegardError
from regard.costs.calibration import Calibration, calibrate
from regard.runs.build import build_spec_model, build_task
from regard.runs.plan import plan_run
from regard.runs.spec import RunSpec, merge_sections, read_recipe
from regard.tasks.task import Task
from regard.training.callbacks import Evaluation, Outcome, StepMetrics, TrainingStart
from regard.training.loop import train

THREADS = 2
STEPS = 60
WARMUP_STEPS = 15
MAX_RATIO = 1.25
RECIPES = ("pronounce-quick", "translate", "translate-recurrent")


class StepTimes:
    """Callback that records the time of each step."""

    def __init__(self) -> None:
        self.ended_at: list[float] = []

    def on_train_begin(self, info: TrainingStart) -> None:
        """Ignored."""

    def on_step_end(self, info: StepMetrics) -> None:
        """Record the time."""
        self.ended_at.append(time.perf_counter())

    def on_evaluate(self, scores: Evaluation) -> None:
        """Ignored."""

    def on_save(self, path: Path) -> None:
        """Ignored."""

    def on_train_end(self, outcome: Outcome | None) -> None:
        """Ignored."""

    def mean(self) -> float:
        """Mean seconds per step, without the warm-up."""
        return (self.ended_at[-1] - self.ended_at[WARMUP_STEPS]) / (
            len(self.ended_at) - 1 - WARMUP_STEPS
        )


def planning() -> Iterator[Measurement]:
    """One measurement per recipe: the ratio of predicted and measured time, as 1 or more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        calibration = calibrate()
        for recipe in RECIPES:
            yield _measurement(recipe, calibration)
    finally:
        torch.set_num_threads(threads)


def _measurement(recipe: str, calibration: Calibration) -> Measurement:
    sections = read_recipe(recipe)
    if sections["task"]["name"] == "translate":
        sections = merge_sections(sections, {"task": _multi30k_files()})
    spec = RunSpec.from_sections(sections)
    task = build_task(spec)
    predicted = plan_run(spec, task, calibration, evaluated=False).seconds_per_step
    measured = _measured(spec, task)
    return Measurement(
        f"a step of {recipe}, predicted against measured",
        max(predicted / measured, measured / predicted),
        MAX_RATIO,
        larger_is_better=False,
        detail=f"{1000 * predicted:.0f} ms predicted, {1000 * measured:.0f} ms measured",
    )


def _measured(spec: RunSpec, task: Task) -> float:
    options = spec.training.replace(steps=STEPS, evaluate_every=10 * STEPS)
    times = StepTimes()
    # Skip the evaluation after the last step.
    setattr(task, "evaluate", lambda _: {task.metric: 0.0})  # noqa: B010
    with tempfile.TemporaryDirectory() as folder:
        train(
            model=build_spec_model(spec, task.dataset.preprocessor),
            task=task,
            options=options,
            folder=Path(folder),
            seed=spec.seed,
            callbacks=[times],
        )
    return times.mean()


def _multi30k_files() -> dict[str, Any]:
    folder = os.environ.get("REGARD_DATA")
    if not folder:
        raise RegardError(
            "The benchmark 'planning' needs multi30k/, but REGARD_DATA is not set. Set it to the data "
            "folder, or name other benchmarks."
        )
    files = Path(folder) / "multi30k"
    return {
        name: f"{files / split}.de.gz,{files / split}.en.gz"
        for name, split in {"train_file": "train", "validation_file": "val"}.items()
    }
