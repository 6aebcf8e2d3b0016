"""A spec becomes objects: the one place where a task and a model are built and put together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.pair_batch import PairBatch
from regard.core.sequence_model import Decode
from regard.models import build_model, model_class
from regard.models.decoding import decode
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.pair_corpus import PairCorpus
from regard.tasks.pair_task import PairTask
from regard.tasks.pair_vocabularies import PairVocabularies

# Beside products, whose number is declared, a backward pass does about twice what the forward pass does.
BACKWARD_TIMES = 2


def build_task(
    spec: RunSpec,
    *,
    vocabularies: PairVocabularies | None = None,
    corpus: PairCorpus | None = None,
) -> PairTask:
    """The task, its files read; while training it is evaluated with the quickest decoding.

    A `corpus` that was read before, for equal options of the task, is not read again.
    """
    task, quickest = task_class(spec.task), partial(decode, beam_size=1)
    if corpus is not None:
        return task(corpus=corpus, options=spec.task_options, seed=spec.seed, decode=quickest)
    return task.from_options(
        spec.task_options, seed=spec.seed, decode=quickest, vocabularies=vocabularies
    )


def best_decoding(spec: RunSpec) -> Decode:
    """The decoding that the final scores are made with."""
    options = spec.task_options
    return partial(decode, beam_size=options.beam_size, length_penalty=options.length_penalty)


def build_spec_model(spec: RunSpec, vocabularies: PairVocabularies) -> nn.Module:
    """The model, its weights drawn from the spec's seed."""
    default = inspect.signature(model_class(spec.model)).parameters["tie"].default
    tie = spec.model_options.get("tie", default)
    if tie == "all" and vocabularies.source is not vocabularies.target:
        raise RegardError(
            "model.tie='all' shares one table of tokens, but source and target have vocabularies of "
            "their own. Set task.shared_vocabulary=true, or model.tie=target."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        try:
            return build_model(
                spec.model,
                source_vocabulary=vocabularies.source.size,
                target_vocabulary=vocabularies.target.size,
                **spec.model_options,
            )
        except (MemoryError, RuntimeError) as error:  # torch's own allocator raises the latter
            raise RegardError(
                f"The model '{spec.model}' of these sizes cannot be built: {error}. Choose smaller ones."
            ) from error


def operations_of(model: Any, batch: PairBatch) -> int:
    """What one training step on this batch takes, padded places included."""
    cost = cost_of_batch(model, batch)
    beside = cost.functions + cost.arithmetic
    return cost.operations + cost.backward_products + BACKWARD_TIMES * beside


def operations_counter(model: Any) -> Callable[[PairBatch], int]:
    """`operations_of` for one model, worked out once for batches of one shape."""
    known: dict[tuple[int, ...], int] = {}

    def count(batch: PairBatch) -> int:
        shape = (*batch.source.shape, *batch.given.shape)
        if shape not in known:
            known[shape] = operations_of(model, batch)
        return known[shape]

    return count


def cost_of_batch(model: Any, batch: PairBatch) -> Cost:
    """What the model declares for this batch."""
    cost: Cost = model.cost(
        batch_size=batch.source.shape[0],
        source_length=batch.source.shape[1],
        target_length=batch.given.shape[1],
    )
    return cost
