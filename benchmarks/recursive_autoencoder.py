"""The bar of the recursive autoencoder: whole training steps against one node at a time.

Sentences are made up, as long as those of SST-2 (2 to 52 words, 19 at the median). Batches are as the task
cuts them, 2,048 places of texts of like length; and once as many words in texts of any length.
Both rivals are the same model on the same batch, with a step of the same optimiser, and run in turn; in
float64 their losses and gradients are compared first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measuring import Call, Finding, median_seconds
from benchmarks.node_by_node import classified
from regard.core.batches import PAD, SPECIAL_TOKENS
from regard.core.protocols import Classified
from regard.models.autoencoders.recursive import RecursiveAutoencoder

VOCABULARY, CLASSES, MODEL_DIM = 8000, 2, 64
PLACES, COMPARED_ROWS = 2048, 16
MEAN_LENGTH, SPREAD, SHORTEST, LONGEST = 19.3, 9.3, 2, 52
REPEATS = 5
TIMES_FASTER = 20.0
APART = 1e-10

Classifier = Callable[[Tensor, Tensor], Classified]


class Texts(NamedTuple):
    """A batch and its labels."""

    tokens: Tensor
    lengths: Tensor
    labels: Tensor


def recursive_autoencoder() -> Iterator[Finding]:
    """The same results, then how much sooner."""
    random = torch.Generator().manual_seed(0)
    model = RecursiveAutoencoder(vocabulary=VOCABULARY, classes=CLASSES, model_dim=MODEL_DIM)
    mixed = made_up(lengths(round(PLACES / MEAN_LENGTH), random), random)
    few = Texts(*(part[:COMPARED_ROWS] for part in mixed))
    yield Finding(
        f"loss and gradients apart, float64, {COMPARED_ROWS} texts, / {APART:g}",
        _apart(model, few) / APART,
        1.0,
        larger_is_better=False,
    )
    by_length = lengths(PLACES, random).sort().values
    for share in (0.25, 0.5, 0.75):
        length = int(by_length[int(share * PLACES)])
        near = by_length[int(share * PLACES) :][: PLACES // length]
        what = f"texts of {int(near[0])} to {int(near[-1])} words"
        yield _gain(model, made_up(near, random), what=what)
    yield _gain(model, mixed, what="texts of any length")


def lengths(count: int, random: torch.Generator) -> Tensor:
    """How long texts are."""
    drawn = MEAN_LENGTH + SPREAD * torch.randn(count, generator=random)
    return drawn.round().long().clamp(SHORTEST, LONGEST)


def made_up(lengths: Tensor, random: torch.Generator) -> Texts:
    """Texts of these lengths and labels for them."""
    longest = int(lengths.max())
    ranks = VOCABULARY - len(SPECIAL_TOKENS)
    words = (ranks ** torch.rand(len(lengths), longest, generator=random)).long() - 1
    padding = torch.arange(longest) >= lengths[:, None]
    tokens = (words + len(SPECIAL_TOKENS)).masked_fill(padding, PAD)
    labels = torch.randint(CLASSES, (len(lengths),), generator=random)
    return Texts(tokens, lengths, labels)


def loss(classify: Classifier, texts: Texts) -> Tensor:
    """What the task would minimise."""
    said = classify(texts.tokens, texts.lengths)
    cross_entropy = F.cross_entropy(said.logits, texts.labels, reduction="sum")
    return (cross_entropy + said.penalty.sum()) / len(texts.labels)


def _apart(model: RecursiveAutoencoder, texts: Texts) -> float:
    """The largest difference of losses and gradients."""
    model = copy.deepcopy(model).double()
    found = []
    for classify in (model.classified, partial(classified, model)):
        value = loss(classify, texts)
        found.append([value, *torch.autograd.grad(value, list(model.parameters()))])
    pairs = zip(*found, strict=True)
    return max(float((ours - theirs).detach().abs().max()) for ours, theirs in pairs)


def _gain(model: RecursiveAutoencoder, texts: Texts, *, what: str) -> Finding:
    batched, single = copy.deepcopy(model), copy.deepcopy(model)
    calls = [
        _step(batched, batched.classified, texts),
        _step(single, partial(classified, single), texts),
    ]
    ours, theirs = median_seconds(calls, repeats=REPEATS)
    return Finding(
        f"training, times faster than node by node, {what}",
        theirs / ours,
        TIMES_FASTER,
        larger_is_better=True,
        detail=f"({ours * 1e3:.0f} ms a step against {theirs * 1e3:,.0f})",
    )


def _step(model: RecursiveAutoencoder, classify: Classifier, texts: Texts) -> Call:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad()
        loss(classify, texts).backward()
        optimiser.step()

    return step
