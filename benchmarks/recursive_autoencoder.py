"""Recursive autoencoder: training steps, batched against the node-by-node reference.

Sentences are synthetic, with the lengths of SST-2 (2 to 52 words, median 19). Batches have 2,048 padded
tokens, bucketed by length as in the task, and once mixed. Both systems are the same model on the same
batch with the same optimizer step, alternating; their float64 losses and gradients are compared first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measurement import Call, Measurement, median_seconds
from benchmarks.recursive_reference import classify as classify_reference
from regard.core.batches import PAD, SPECIAL_TOKENS, TokenInput
from regard.core.protocols import ClassifierOutput
from regard.models.autoencoders.recursive import RecursiveAutoencoder

VOCABULARY, CLASSES, MODEL_DIM = 8000, 2, 64
BATCH_TOKENS, COMPARED_ROWS = 2048, 16
MEAN_LENGTH, LENGTH_STD, SHORTEST, LONGEST = 19.3, 9.3, 2, 52
REPEATS = 5
TIMES_FASTER = 20.0
TOLERANCE = 1e-10

Classifier = Callable[[TokenInput], ClassifierOutput]


class Texts(NamedTuple):
    """A batch and its labels."""

    tokens: Tensor
    lengths: Tensor
    labels: Tensor


def recursive_autoencoder() -> Iterator[Measurement]:
    """Equal results, then the speedup."""
    random = torch.Generator().manual_seed(0)
    model = RecursiveAutoencoder(source=VOCABULARY, outputs=CLASSES, model_dim=MODEL_DIM)
    mixed = dummy_texts(lengths(round(BATCH_TOKENS / MEAN_LENGTH), random), random)
    few = Texts(*(part[:COMPARED_ROWS] for part in mixed))
    yield Measurement(
        f"difference of loss and gradients, float64, {COMPARED_ROWS} texts, / {TOLERANCE:g}",
        _difference(model, few) / TOLERANCE,
        1.0,
        larger_is_better=False,
    )
    sorted_lengths = lengths(BATCH_TOKENS, random).sort().values
    for quantile in (0.25, 0.5, 0.75):
        length = int(sorted_lengths[int(quantile * BATCH_TOKENS)])
        bucket = sorted_lengths[int(quantile * BATCH_TOKENS) :][: BATCH_TOKENS // length]
        case = f"texts of {int(bucket[0])} to {int(bucket[-1])} words"
        yield _speedup(model, dummy_texts(bucket, random), case=case)
    yield _speedup(model, mixed, case="texts of mixed length")


def lengths(count: int, random: torch.Generator) -> Tensor:
    """Random text lengths."""
    values = MEAN_LENGTH + LENGTH_STD * torch.randn(count, generator=random)
    return values.round().long().clamp(SHORTEST, LONGEST)


def dummy_texts(lengths: Tensor, random: torch.Generator) -> Texts:
    """Random texts of these lengths, and labels."""
    longest = int(lengths.max())
    ranks = VOCABULARY - len(SPECIAL_TOKENS)
    words = (ranks ** torch.rand(len(lengths), longest, generator=random)).long() - 1
    padding = torch.arange(longest) >= lengths[:, None]
    tokens = (words + len(SPECIAL_TOKENS)).masked_fill(padding, PAD)
    labels = torch.randint(CLASSES, (len(lengths),), generator=random)
    return Texts(tokens, lengths, labels)


def loss(classify: Classifier, texts: Texts) -> Tensor:
    """The training loss of the task."""
    output = classify(TokenInput(texts.tokens, texts.lengths))
    cross_entropy = F.cross_entropy(output.logits, texts.labels, reduction="sum")
    return (cross_entropy + output.penalty.sum()) / len(texts.labels)


def _difference(model: RecursiveAutoencoder, texts: Texts) -> float:
    """The largest difference of losses and gradients."""
    model = copy.deepcopy(model).double()
    found = []
    for classify in (model.classify, partial(classify_reference, model)):
        value = loss(classify, texts)
        found.append([value, *torch.autograd.grad(value, list(model.parameters()))])
    pairs = zip(*found, strict=True)
    return max(float((ours - theirs).detach().abs().max()) for ours, theirs in pairs)


def _speedup(model: RecursiveAutoencoder, texts: Texts, *, case: str) -> Measurement:
    batched, single = copy.deepcopy(model), copy.deepcopy(model)
    calls = [
        _step(batched, batched.classify, texts),
        _step(single, partial(classify_reference, single), texts),
    ]
    ours, theirs = median_seconds(calls, repeats=REPEATS)
    return Measurement(
        f"training, speedup over node by node, {case}",
        theirs / ours,
        TIMES_FASTER,
        larger_is_better=True,
        detail=f"({ours * 1e3:.0f} ms per step against {theirs * 1e3:,.0f})",
    )


def _step(model: RecursiveAutoencoder, classify: Classifier, texts: Texts) -> Call:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss(classify, texts).backward()
        optimizer.step()

    return step
