"""Sentences told the mean of those before them: against a loop over documents and sentences."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from regard.layers.sentence_pooling import SentencePooling
from regard.models.classifiers.hierarchical import SentenceLayout, pooled_in_turn

# Three documents, of four sentences, of one, and of three with an empty one among them.
SIZES = [[2, 1, 3, 2], [4], [1, 0, 2, 5]]
DIRECTIONS: tuple[Literal["onward", "back"], ...] = ("onward", "back")


def layout() -> SentenceLayout:
    lengths = torch.tensor([sum(sizes) for sizes in SIZES])
    segments = torch.zeros(len(SIZES), int(lengths.max()), dtype=torch.long)
    for row, sizes in enumerate(SIZES):
        numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
        segments[row, : len(numbers)] = torch.tensor(numbers)
    return SentenceLayout.of(lengths, segments)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_each_is_told_the_mean_of_those_before(
    direction: Literal["onward", "back"], gated: bool
) -> None:
    torch.manual_seed(0)
    pooling = SentencePooling(model_dim=4, hidden_dim=3, context_dim=4, gated=gated).double()
    words = torch.randn(sum(map(sum, SIZES)), 4, dtype=torch.float64)
    found = pooled_in_turn(pooling, words, layout(), direction=direction)

    contexts, weights = [], []
    first = 0
    for sizes in SIZES:
        places = []
        for size in filter(None, sizes):
            places.append(range(first, first + size))
            first += size
        in_turn = places if direction == "onward" else places[::-1]
        told = torch.zeros(1, 4, dtype=torch.float64)
        pooled = []
        for place in in_turn:
            own = words[list(place)]
            sentence = torch.zeros(len(own), dtype=torch.long)
            pooled.append(pooling(own, sentence, count=1, context=told))
            told = torch.stack([one.context for one in pooled]).mean(dim=0)
        if direction == "back":
            pooled.reverse()
        contexts += [one.context for one in pooled]
        weights += [one.weights for one in pooled]
    torch.testing.assert_close(found.context, torch.cat(contexts))
    torch.testing.assert_close(found.weights, torch.cat(weights))


def test_three_sentences_of_one_word_for_the_pencil() -> None:
    """A sentence of one word is that word, so all that is told can be written down."""
    told = []

    class Listening(SentencePooling):
        def forward(self, *args, **words):  # type: ignore[no-untyped-def]
            told.append(words["context"].tolist())
            return super().forward(*args, **words)

    pooling = Listening(model_dim=1, context_dim=1)
    words = torch.tensor([[2.0], [4.0], [9.0]])
    of_three = SentenceLayout.of(torch.tensor([3]), torch.tensor([[0, 1, 2]]))
    for direction, expected in zip(DIRECTIONS, ([0.0, 2.0, 3.0], [0.0, 9.0, 6.5]), strict=True):
        told.clear()
        pooled_in_turn(pooling, words, of_three, direction=direction)
        assert told == [[[mean]] for mean in expected]
