"""Builds the task, the model and the decoding of a run from its spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float64
from torch import nn

from regard.core.batches import Batch
from regard.core.cost import AttentionShape
from regard.core.counting import training_flops
from regard.core.errors import RegardError
from regard.core.protocols import Decode
from regard.core.traits import traits_of
from regard.data.preprocessor import Preprocessor
from regard.data.tokenizers.vocabulary import Vocabulary
from regard.layers.multi_head import MultiHead
from regard.models import build_model, model_class
from regard.models.embeddings import WordEmbedding
from regard.models.generation.search import decode
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.task import Task
from regard.training.seeding import build_seeded


def build_task(spec: RunSpec, *, preprocessor: Any = None, dataset: Any = None) -> Task:
    """The task with its data; validation during training decodes greedily.

    A `dataset` that was already read with the same task options is reused.
    """
    task, greedy = task_class(spec.task), partial(decode, beam_size=1)
    if dataset is not None:
        return task(dataset=dataset, options=spec.task_options, seed=spec.seed, decode=greedy)
    return task.from_options(
        spec.task_options, seed=spec.seed, decode=greedy, preprocessor=preprocessor
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


def build_spec_model(spec: RunSpec, preprocessor: Preprocessor) -> nn.Module:
    """The model; every parameter is drawn from the spec's seed and its own name."""
    sizes = preprocessor.sizes()
    _validate_shared_vocabulary(spec, preprocessor)
    _validate_segments(spec)
    build = partial(build_model, spec.model, **sizes, **spec.model_options)
    try:
        model = build_seeded(build, seed=spec.seed)
    except (MemoryError, RuntimeError) as error:  # RuntimeError: torch's allocator
        raise RegardError(
            f"The model '{spec.model}' of these sizes cannot be built: {error}. Choose smaller sizes."
        ) from error
    for module in model.modules():
        if isinstance(module, WordEmbedding):
            module.set_words(cast("Any", preprocessor).input.tokens)
    return model


def _validate_shared_vocabulary(spec: RunSpec, preprocessor: Preprocessor) -> None:
    """Raise if a model shares embeddings or one sequence between two different vocabularies."""
    target = preprocessor.target
    if not isinstance(target, Vocabulary) or preprocessor.input is target:
        return
    traits = traits_of(model_class(spec.model))
    if traits.shared_vocabulary:
        raise RegardError(
            f"The model '{spec.model}' needs one vocabulary for source and target, but they have two. Set "
            "task.shared_vocabulary=true."
        )
    parameters = inspect.signature(model_class(spec.model)).parameters
    for option, value in traits.tied.items():
        if spec.model_options.get(option, parameters[option].default) == value:
            raise RegardError(
                f"model.{option}='{value}' shares one embedding, but source and target have two "
                f"vocabularies. Set task.shared_vocabulary=true, or another model.{option}."
            )


def _validate_segments(spec: RunSpec) -> None:
    """Raise if a model needs sentence segments and texts are not split, and vice versa."""
    segments = traits_of(model_class(spec.model)).segments
    splits_sentences = getattr(spec.task_options, "sentences", False)
    if segments == "sentences" and not splits_sentences:
        raise RegardError(
            f"The model '{spec.model}' needs texts split into sentences. Set task.sentences=true, or use "
            "--recipe classify-documents."
        )
    if segments == "texts" and splits_sentences:
        raise RegardError(
            f"task.sentences=true: the segments of the model '{spec.model}' are the two texts of a pair. "
            "Set task.sentences=false, or model.name=hierarchical."
        )


# Batches of an epoch whose FLOPs are counted; those of the others follow from their sizes.
COUNTED_BATCHES = 16


def flops_counter(model: Any, task: Task) -> Callable[[Batch], int]:
    """The FLOPs of loss and gradients on a batch, from its sizes.

    They are counted on batches from the shortest to the longest of the first epoch, and fitted by a
    polynomial in batch size, lengths, positions and predictions, and by the declared FLOPs of
    self-attention, which may change its form with the length. Counting every batch would cost a third of
    the training time.
    """
    coefficients: list[Float64[np.ndarray, " features"]] = []
    attention_flops = cache(partial(_attention_flops, model))

    def count(batch: Batch) -> int:
        if not coefficients:
            epoch = task.epoch(0)
            by_length = sorted(range(len(epoch)), key=lambda index: -len(epoch.indices(index)))
            chosen = np.linspace(0, len(epoch) - 1, min(len(epoch), COUNTED_BATCHES)).astype(int)
            batches = [epoch[by_length[index]] for index in chosen]
            flops = np.array([count_flops(model, task, each) for each in batches], dtype=np.float64)
            # Divided by the FLOPs, so that relative errors are minimised.
            terms = np.array([_terms(each, attention_flops) for each in batches]) / flops[:, None]
            scale = np.abs(terms).max(axis=0)
            scale[scale == 0] = 1.0
            ones = np.ones(len(flops))
            coefficients.append(np.linalg.lstsq(terms / scale, ones, rcond=None)[0] / scale)
        return max(0, round(float(_terms(batch, attention_flops) @ coefficients[0])))

    return count


def _terms(
    batch: Batch, attention_flops: Callable[[int, int, int], int]
) -> Float64[np.ndarray, " features"]:
    """The terms that are fitted; padding has terms of its own, because masks are applied."""
    rows, length = batch.input.shape[:2]
    of_target: tuple[int, ...] = getattr(batch.target, "shape", ())
    target = sum(of_target[1:2])
    padded = bool(getattr(batch.input, "padded", False))
    target_padded = bool(getattr(batch.target, "padded", False))
    lengths = (1, length, target, length**2, length * target, target**2)
    masked = (padded * length**2, padded * length * target, target_padded * target**2)
    terms = (rows * each for each in (*lengths, *masked))
    counts = (batch.input.num_positions, batch.num_predictions)
    return np.array([1, *terms, *counts, attention_flops(rows, length, target)], dtype=np.float64)


def _attention_flops(model: nn.Module, rows: int, length: int, target: int) -> int:
    """The declared matmul FLOPs of training all self-attention layers.

    A layer is taken for causal in a decoder-only model, and if its name starts with "decoder".
    """
    flops, is_decoder_only = 0, traits_of(type(model)).is_decoder_only
    for name, layer in model.named_modules():
        if not isinstance(layer, MultiHead) or layer.role != "self":
            continue
        mechanism, sizes = layer.mechanism, layer.sizes
        causal = name.startswith("decoder") or is_decoder_only
        # A decoder does not see the last token, nor a packed prompt its end.
        prompt = length - 1 if is_decoder_only else 0
        positions = max(0, prompt + target - 1) if causal else length
        if mechanism.declares_cost:
            cost = mechanism.cost(
                AttentionShape(
                    batch_size=rows,
                    num_heads=sizes.num_heads,
                    num_kv_heads=sizes.num_kv_heads,
                    query_length=positions,
                    key_length=positions,
                    key_dim=sizes.head_dim,
                    value_dim=sizes.value_dim,
                    causal=causal or mechanism.capabilities.requires_causal,
                )
            )
            flops += cost.matmul_flops + cost.backward_matmul_flops
    return flops


def count_flops(model: Any, task: Task, batch: Batch) -> int:
    """The FLOPs of loss and gradients on a batch; random state, buffers and gradients stay as they are."""
    device = next(iter(model.parameters())).device
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]  # such as running means
    with torch.random.fork_rng(devices=[]):
        flops = training_flops(lambda: task.loss(model, batch.to(device)).total)
    for buffer, before in buffers:
        buffer.copy_(before)
    return flops
