"""Builds the task, the model and the decoding of a run from its spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.protocols import Decode
from regard.models import MODELS, build_model, model_class
from regard.models.embeddings import WordEmbedding
from regard.models.generation.search import decode
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.task import Task, Vocabularies

# Elementwise work of the backward pass, relative to the forward pass; matmuls are declared exactly.
BACKWARD_FACTOR = 2


def build_task(spec: RunSpec, *, vocabularies: Any = None, corpus: Any = None) -> Task:
    """The task with its data; validation during training decodes greedily.

    A `corpus` that was already read with the same task options is reused.
    """
    task, greedy = task_class(spec.task), partial(decode, beam_size=1)
    if corpus is not None:
        return task(corpus=corpus, options=spec.task_options, seed=spec.seed, decode=greedy)
    return task.from_options(
        spec.task_options, seed=spec.seed, decode=greedy, vocabularies=vocabularies
    )


def build_decoding(spec: RunSpec, **overrides: Any) -> Decode:
    """The decoding of the final evaluation: the task's options, with `overrides` that are not None."""
    decode_kwargs = task_class(spec.task).decode_kwargs(spec.task_options)
    overrides = {name: value for name, value in overrides.items() if value is not None}
    for name, value in overrides.items():
        if name not in decode_kwargs:
            raise RegardError(
                f"{name}={value}: the task '{spec.task}' does not decode sequences. Remove {name}."
            )
    return partial(decode, **(decode_kwargs | overrides))


def build_spec_model(spec: RunSpec, vocabularies: Vocabularies) -> nn.Module:
    """The model, initialised from the spec's seed."""
    sizes = vocabularies.sizes()
    _validate_shared_vocabulary(spec, vocabularies)
    _validate_segments(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        try:
            model = build_model(spec.model, **sizes, **spec.model_options)
        except (MemoryError, RuntimeError) as error:  # RuntimeError: torch's allocator
            raise RegardError(
                f"The model '{spec.model}' of these sizes cannot be built: {error}. Choose smaller sizes."
            ) from error
    for module in model.modules():
        if isinstance(module, WordEmbedding):
            module.set_words(cast("Any", vocabularies).text.tokens)
    return model


def _validate_shared_vocabulary(spec: RunSpec, vocabularies: Any) -> None:
    """Raise if a model shares embeddings or one sequence between two different vocabularies."""
    if MODELS[spec.model].inputs != "pairs" or vocabularies.source is vocabularies.target:
        return
    kind = model_class(spec.model)
    if getattr(kind, "requires_shared_vocabulary", False):
        raise RegardError(
            f"The model '{spec.model}' needs one vocabulary for source and target, but they have two. Set "
            "task.shared_vocabulary=true."
        )
    default = inspect.signature(kind).parameters["tie"].default
    if spec.model_options.get("tie", default) == "all":
        raise RegardError(
            "model.tie='all' shares one embedding, but source and target have two vocabularies. Set "
            "task.shared_vocabulary=true, or model.tie=target."
        )


def _validate_segments(spec: RunSpec) -> None:
    """Raise if a model needs sentence segments and texts are not split, and vice versa."""
    unit = getattr(model_class(spec.model), "segment_unit", None)
    splits_sentences = getattr(spec.task_options, "sentences", False)
    if unit == "sentences" and not splits_sentences:
        raise RegardError(
            f"The model '{spec.model}' needs texts split into sentences. Set task.sentences=true, or use "
            "--recipe classify-documents."
        )
    if unit == "texts" and splits_sentences:
        raise RegardError(
            f"task.sentences=true: the segments of the model '{spec.model}' are the two texts of a pair. "
            "Set task.sentences=false, or model.name=hierarchical."
        )


def flops_of(model: Any, sizes: dict[str, int]) -> int:
    """FLOPs of one training step on a batch of these sizes, padding included."""
    cost: Cost = model.cost(**sizes)
    other = cost.transcendental_ops + cost.elementwise_ops
    return cost.flops + cost.backward_matmul_flops + BACKWARD_FACTOR * other


def flops_counter(model: Any, task: Task) -> Callable[[Any], int]:
    """`flops_of` for the batches of a task, cached by batch shape."""
    known: dict[tuple[int, ...], int] = {}

    def count(batch: Any) -> int:
        sizes = task.cost_kwargs(batch)
        shape = tuple(sizes.values())
        if shape not in known:
            known[shape] = flops_of(model, sizes)
        return known[shape]

    return count
