"""Sequential pooling with sentence context, against a loop over documents and sentences."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from regard.layers.sentence_pooling import SentencePooling
from regard.models.classifiers.hierarchical import SentenceLayout, pool_sequentially

# Documents of four sentences, of one, and of three with an empty one among them.
SIZES = [[2, 1, 3, 2], [4], [1, 0, 2, 5]]
DIRECTIONS: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")


def layout() -> SentenceLayout:
    lengths = torch.tensor([sum(sizes) for sizes in SIZES])
    segments = torch.zeros(len(SIZES), int(lengths.max()), dtype=torch.long)
    for row, sizes in enumerate(SIZES):
        numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
        segments[row, : len(numbers)] = torch.tensor(numbers)
    return SentenceLayout.of(lengths, segments)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_context_is_the_mean_of_the_preceding_sentences(
    direction: Literal["forward", "backward"], gated: bool
) -> None:
    torch.manual_seed(0)
    pooling = SentencePooling(model_dim=4, hidden_dim=3, context_dim=4, gated=gated).double()
    words = torch.randn(sum(map(sum, SIZES)), 4, dtype=torch.float64)
    found = pool_sequentially(pooling, words, layout(), direction=direction)

    contexts, weights = [], []
    first = 0
    for sizes in SIZES:
        spans = []
        for size in filter(None, sizes):
            spans.append(range(first, first + size))
            first += size
        in_order = spans if direction == "forward" else spans[::-1]
        context = torch.zeros(1, 4, dtype=torch.float64)
        pooled = []
        for span in in_order:
            own = words[list(span)]
            sentence = torch.zeros(len(own), dtype=torch.long)
            pooled.append(pooling(own, sentence, count=1, context=context))
            context = torch.stack([one.context for one in pooled]).mean(dim=0)
        if direction == "backward":
            pooled.reverse()
        contexts += [one.context for one in pooled]
        weights += [one.weights for one in pooled]
    torch.testing.assert_close(found.context, torch.cat(contexts))
    torch.testing.assert_close(found.weights, torch.cat(weights))


def test_three_sentences_of_one_word() -> None:
    """The vector of a one-word sentence is its word, so the contexts are known."""
    contexts = []

    class Recording(SentencePooling):
        def forward(self, *args, **options):  # type: ignore[no-untyped-def]
            contexts.append(options["context"].tolist())
            return super().forward(*args, **options)

    pooling = Recording(model_dim=1, context_dim=1)
    words = torch.tensor([[2.0], [4.0], [9.0]])
    of_three = SentenceLayout.of(torch.tensor([3]), torch.tensor([[0, 1, 2]]))
    for direction, expected in zip(DIRECTIONS, ([0.0, 2.0, 3.0], [0.0, 9.0, 6.5]), strict=True):
        contexts.clear()
        pool_sequentially(pooling, words, of_three, direction=direction)
        assert contexts == [[[mean]] for mean in expected]
