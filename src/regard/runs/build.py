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
from regard.core.protocols import Decode
from regard.models import MODELS, build_model, model_class
from regard.models.embeddings import WordVectors
from regard.models.generation.search import decode
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.task import RunTask, Vocabularies

# Beside products, whose number is declared, a backward pass does about twice what the forward pass does.
BACKWARD_TIMES = 2


def build_task(spec: RunSpec, *, vocabularies: Any = None, corpus: Any = None) -> RunTask:
    """The task, its files read; while training it is evaluated with the quickest decoding.

    A `corpus` that was read before, for equal options of the task, is not read again.
    """
    task, quickest = task_class(spec.task), partial(decode, beam_size=1)
    if corpus is not None:
        return task(corpus=corpus, options=spec.task_options, seed=spec.seed, decode=quickest)
    return task.from_options(
        spec.task_options, seed=spec.seed, decode=quickest, vocabularies=vocabularies
    )


def best_decoding(spec: RunSpec, **changes: Any) -> Decode:
    """The decoding that the final scores are made with; of `changes`, None is none."""
    words = task_class(spec.task).decoding(spec.task_options)
    asked = {name: value for name, value in changes.items() if value is not None}
    for name in asked:
        if name not in words:
            raise RegardError(
                f"{name} is about writing a text step by step, which the task '{spec.task}' does not do. "
                "Leave it away."
            )
    return partial(decode, **(words | asked))


def build_spec_model(spec: RunSpec, vocabularies: Vocabularies) -> nn.Module:
    """The model, its weights drawn from the spec's seed."""
    sizes = vocabularies.sizes()
    _require_one_vocabulary(spec, vocabularies)
    _require_segments(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        try:
            model = build_model(spec.model, **sizes, **spec.model_options)
        except (MemoryError, RuntimeError) as error:  # torch's own allocator raises the latter
            raise RegardError(
                f"The model '{spec.model}' of these sizes cannot be built: {error}. Choose smaller ones."
            ) from error
    _spell(model, vocabularies)
    return model


def _spell(model: nn.Module, vocabularies: Any) -> None:
    """Tell the words of the vocabulary to the part of a model that reads spellings."""
    for part in model.modules():
        if isinstance(part, WordVectors):
            part.spell(vocabularies.text.tokens)


def _require_one_vocabulary(spec: RunSpec, vocabularies: Any) -> None:
    """Refuse a model that shares one table, or reads both sides as one, where there are two."""
    if MODELS[spec.model].reads != "pairs" or vocabularies.source is vocabularies.target:
        return
    kind = model_class(spec.model)
    if getattr(kind, "one_vocabulary", False):
        raise RegardError(
            f"The model '{spec.model}' reads source and target as one sequence, but they have vocabularies "
            "of their own. Set task.shared_vocabulary=true."
        )
    default = inspect.signature(kind).parameters["tie"].default
    if spec.model_options.get("tie", default) == "all":
        raise RegardError(
            "model.tie='all' shares one table of tokens, but source and target have vocabularies of "
            "their own. Set task.shared_vocabulary=true, or model.tie=target."
        )


def _require_segments(spec: RunSpec) -> None:
    """Refuse a model to which segments are sentences where texts are not cut into them, and the reverse."""
    meant = getattr(model_class(spec.model), "segments_are", None)
    cut = getattr(spec.task_options, "sentences", False)
    if meant == "sentences" and not cut:
        raise RegardError(
            f"The model '{spec.model}' reads sentences, but texts are not cut into them. Set "
            "task.sentences=true, or take the recipe: --recipe classify-documents."
        )
    if meant == "texts" and cut:
        raise RegardError(
            f"task.sentences=true, but to the model '{spec.model}' a segment is one of two texts. Set "
            "task.sentences=false, or choose a model that reads sentences: hierarchical."
        )


def operations_of(model: Any, sizes: dict[str, int]) -> int:
    """What one training step on a batch of these sizes takes, padded places included."""
    cost: Cost = model.cost(**sizes)
    beside = cost.functions + cost.arithmetic
    return cost.operations + cost.backward_products + BACKWARD_TIMES * beside


def operations_counter(model: Any, task: RunTask) -> Callable[[Any], int]:
    """`operations_of` for the batches of a task, worked out once for batches of one shape."""
    known: dict[tuple[int, ...], int] = {}

    def count(batch: Any) -> int:
        sizes = task.cost_words(batch)
        shape = tuple(sizes.values())
        if shape not in known:
            known[shape] = operations_of(model, sizes)
        return known[shape]

    return count
