"""The deletion test, on a classifier that can be computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from tests.factories.lexicon_classifier import LexiconClassifier
from torch import Tensor

from regard.core.batches import END, PAD, START, TokenInput
from regard.core.errors import RegardError
from regard.tasks.classification.deletion import deletion_curve

# Token 4 votes for the second class and token 5 against it; 6 to 9 say nothing.
VOTES = [0.0, 0.0, 0.0, 0.0, 3.0, -1.0, 0.0, 0.0, 0.0, 0.0]
HONEST = [0.0, 1.0, 1.0, 1.0, 9.0, 2.0, 1.0, 1.1, 1.2, 1.3]
BLIND = [0.0] + [1.0] * 9


def sigmoid(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def one(*tokens: int) -> tuple[Tensor, Tensor]:
    return torch.tensor([tokens]), torch.tensor([len(tokens)])


def test_example_by_hand() -> None:
    """Ten words, one voting +3 and one −1. The first goes first; with half of them both are gone."""
    model = LexiconClassifier(VOTES, HONEST)
    tokens, lengths = one(START, 6, 7, 8, 4, 9, 6, 7, 5, 8, 9, END)
    found = deletion_curve(
        model, TokenInput(tokens, lengths, None), fractions=(0.1, 0.2, 0.5), draws=4
    )
    assert found.words.tolist() == [10]
    assert found.removed.tolist() == [[1, 2, 5]]
    assert found.labels.tolist() == [1]
    whole = sigmoid(2.0)
    assert found.probability.tolist() == pytest.approx([whole])
    # +3 gone: −1 is left; then −1 gone too: even.
    after = [sigmoid(-1.0), sigmoid(0.0), sigmoid(0.0)]
    assert found.top.drops[0, 0] == pytest.approx([whole - each for each in after], abs=1e-6)
    assert found.top.flips[0, 0].tolist() == [True, True, True]  # at evens the first class is said
    assert found.least.drops[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert not found.least.flips.any()
    assert found.random.drops.shape == (1, 4, 3)


def test_random_drops_are_possible_drops() -> None:
    model = LexiconClassifier(VOTES, HONEST)
    tokens, lengths = one(4, 5, 6, 7)
    found = deletion_curve(model, TokenInput(tokens, lengths, None), fractions=(0.25,), draws=200)
    whole = sigmoid(2.0)
    possible = [whole - sigmoid(-1.0), whole - sigmoid(3.0), 0.0]
    nearest = np.abs(found.random.drops.reshape(-1, 1) - np.array(possible)).argmin(axis=1)
    counts = np.bincount(nearest, minlength=3)
    assert np.abs(found.random.drops.ravel() - np.array(possible)[nearest]).max() < 1e-6
    # One word in four votes for the label, one against it, two say nothing.
    assert counts / 200 == pytest.approx([0.25, 0.25, 0.5], abs=0.1)


def test_sentence_weights() -> None:
    """The word with most weight in its sentence stays, if its sentence has next to none."""
    looks = [0.0, 0.0, 0.0, 0.0, 0.5, 5.0, 0.1, 4.0, 0.0, 0.0]
    model = LexiconClassifier(VOTES, looks, sentences=True)
    tokens, lengths = one(4, 6, 5, 7)  # within their sentences .83, .17 and .56, .44
    segments = torch.tensor([[0, 0, 1, 1]])
    found = deletion_curve(model, TokenInput(tokens, lengths, segments), fractions=(0.25,), draws=1)
    assert found.top.drops[0, 0, 0] == pytest.approx(sigmoid(2.0) - sigmoid(3.0), abs=1e-6)


def test_boundary_tokens_are_neither_counted_nor_removed() -> None:
    looks = [0.0, 50.0, 90.0, *HONEST[3:]]
    tokens, lengths = one(START, 4, 6, END, 5, END)
    found = deletion_curve(
        LexiconClassifier(VOTES, looks), TokenInput(tokens, lengths, None), fractions=(0.3,)
    )
    assert found.words.tolist() == [3]
    assert found.removed.tolist() == [[1]]
    assert found.top.drops[0, 0, 0] == pytest.approx(sigmoid(2.0) - sigmoid(-1.0), abs=1e-6)


def test_one_word_always_stays() -> None:
    model = LexiconClassifier(VOTES, HONEST)
    tokens = torch.tensor([[START, 4, END, PAD], [4, 5, PAD, PAD], [START, END, PAD, PAD]])
    found = deletion_curve(model, TokenInput(tokens, torch.tensor([3, 2, 2])), fractions=(0.5, 1.0))
    assert found.words.tolist() == [1, 2, 0]
    assert found.removed.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert not found.top.drops[[0, 2]].any()
    assert found.top.drops[1, 0] == pytest.approx(sigmoid(2.0) - sigmoid(-1.0), abs=1e-6)


def test_equal_weights_are_ordered_at_random() -> None:
    """Else leaving out by weight would be leaving out the beginning: the word that decides stands there."""
    # Different texts, for equal ones are drawn alike.
    tokens = torch.tensor([[4, 6 + row % 4, 6 + row // 4 % 4, 6 + row // 16] for row in range(64)])
    lengths = torch.full((64,), 4)
    found = deletion_curve(
        LexiconClassifier(VOTES, BLIND), TokenInput(tokens, lengths, None), fractions=(0.5,)
    )
    assert 0.3 < (found.top.drops > 0.01).mean() < 0.7


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=12), min_size=1, max_size=5))
def test_batching_does_not_change_results(texts: list[list[int]]) -> None:
    model = LexiconClassifier(VOTES, HONEST)
    width = max(map(len, texts))
    padded = torch.tensor([[*text, *[PAD] * (width - len(text))] for text in texts])
    lengths = torch.tensor([len(text) for text in texts])
    together = deletion_curve(model, TokenInput(padded, lengths))
    for row, text in enumerate(texts):
        alone = deletion_curve(model, TokenInput(*one(*text), None))
        for order in ("top", "random", "least"):
            same: Any = getattr(together, order)
            assert getattr(alone, order).drops[0] == pytest.approx(same.drops[row], abs=1e-6)
            assert (getattr(alone, order).flips[0] == same.flips[row]).all()
        assert (together.removed[row] < max(2, len(text))).all()


def test_seed() -> None:
    model = LexiconClassifier(VOTES, HONEST)
    tokens, lengths = one(*[4, 5, 6, 7, 8, 9] * 4)
    first, again, other = (
        deletion_curve(model, TokenInput(tokens, lengths, None), seed=seed).random.drops
        for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_equal_word_counts_are_classified_once() -> None:
    model = LexiconClassifier(VOTES, HONEST)
    deletion_curve(model, TokenInput(*one(4, 5, 6, 7), None), fractions=(0.01, 0.1, 0.2), draws=3)
    assert model.rows_read == 1 + 5


def test_model_without_attention_raises() -> None:
    message = r"LexiconClassifier has no attention .*structured"
    with pytest.raises(RegardError, match=message):
        deletion_curve(LexiconClassifier(VOTES, None), TokenInput(*one(4, 5), None))


@pytest.mark.parametrize("fractions", [(), (0.0,), (0.2, 0.1), (0.5, 1.5)])
def test_invalid_fractions(fractions: tuple[float, ...]) -> None:
    with pytest.raises(RegardError, match="fractions="):
        deletion_curve(
            LexiconClassifier(VOTES, HONEST), TokenInput(*one(4, 5), None), fractions=fractions
        )


def test_invalid_draws() -> None:
    with pytest.raises(RegardError, match="draws=0"):
        deletion_curve(LexiconClassifier(VOTES, HONEST), TokenInput(*one(4, 5), None), draws=0)
