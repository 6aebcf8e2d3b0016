"""How much memory a training step takes: all that lives from step to step, and the peak within one."""

from __future__ import annotations

from typing import Any

from regard.core.pair_batch import PairBatch
from regard.costs.trace import trace
from regard.costs.workload import Run, Workload
from regard.runs.build import build_spec_model
from regard.runs.priced_work import middles
from regard.runs.spec import RunSpec
from regard.tasks.pair_task import PairTask

# Of a weight there are two moments beside itself; its gradient is made within the step.
KEPT_COPIES = 3
LOOKED_AT = 4


def step_bytes(spec: RunSpec, task: PairTask) -> int:
    """The peak of the largest of a few batches of the first epoch, with weights and moments."""
    epoch = task.epoch(0)
    batches = [epoch[place] for place in middles(len(epoch), LOOKED_AT)]
    largest = max(batches, key=lambda batch: batch.source.numel() + batch.target.numel())
    model: Any = build_spec_model(spec, task.corpus.vocabularies).train()
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    # Batches ask for values, which fake tensors do not have.
    traced = trace(Workload("step", "train", lambda: _step(task, model, largest)), really=True)
    return KEPT_COPIES * weights + traced.peak_bytes


def _step(task: PairTask, model: Any, batch: PairBatch) -> Run:
    def run() -> None:
        task.loss(model, batch).total.backward()

    return run
