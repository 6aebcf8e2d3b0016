"""Training steps with dropout seeded by layer and step, against one generator for all draws.

Small models, where the seeding weighs most; the embedded pronouncing dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.measurement import Measurement, median_seconds
from regard.runs.build import build_spec_model, build_task
from regard.runs.spec import RunSpec
from regard.studies import StudySpec, read_study
from regard.tasks.task import Task
from regard.training.seeding import RandomStreams
from regard.training.step import Stepper

STEPS = 8
REPEATS = 60


def seeding() -> Iterator[Measurement]:
    """The ratio of the times of a recurrent model and of a Transformer."""
    for name, variant in (("scores", "luong · dot"), ("mechanisms", "scaled_dot")):
        study = StudySpec.from_sections(read_study(name))
        spec = study.run_spec(study.variant(variant), seed=0)
        task = build_task(spec)
        steps = [partial(_steps, *_built(spec, task, seeded=seeded)) for seeded in (True, False)]
        seeded, plain = median_seconds(steps, repeats=REPEATS)
        yield Measurement(
            f"training step of {spec.model}, dropout seeded by layer",
            seeded / plain,
            1.02,
            larger_is_better=False,
            detail=f"{plain / STEPS * 1e3:.1f} ms a step without",
        )


def _built(
    spec: RunSpec, task: Task, *, seeded: bool
) -> tuple[Stepper, Task, RandomStreams | None]:
    model = build_spec_model(spec, task.dataset.preprocessor)
    streams = RandomStreams(model, seed=0) if seeded else None
    return Stepper(model=model, task=task, options=spec.training), task, streams


def _steps(stepper: Stepper, task: Task, streams: RandomStreams | None) -> None:
    epoch = task.epoch(0)
    for number in range(STEPS):
        if streams is not None:
            streams.begin_step(number)
        stepper.step([epoch[number]], number=number, factor=1e-3)
