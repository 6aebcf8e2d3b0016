"""How much memory a training takes: all that lives from step to step, and the peak within a step."""

from __future__ import annotations

import math
from dataclasses import replace

from regard.costs.trace import trace
from regard.costs.workload import Workload
from regard.runs.priced_work import middles
from regard.runs.spec import RunSpec
from regard.runs.trainee import Trainee
from regard.tasks.run_task import RunTask

LOOKED_AT = 4


def step_bytes(spec: RunSpec, task: RunTask) -> int:
    """With the largest of a few batches of the first epoch; weights, moments and averages included."""
    epoch = task.epoch(0)
    batches = [epoch[place] for place in middles(len(epoch), LOOKED_AT)]
    largest = max(batches, key=lambda batch: math.prod(task.cost_words(batch).values()))
    # Tensors are as large on any device, and only the processor's are counted.
    here = replace(spec, training=replace(spec.training, device="cpu"))
    trainee = Trainee(here, task)
    trainee.step(largest)  # the optimiser makes its moments at its first step
    # Batches ask for values, which fake tensors do not have.
    step = Workload("step", "train", lambda: lambda: trainee.step(largest))
    return trainee.kept_bytes + trace(step, really=True).peak_bytes
