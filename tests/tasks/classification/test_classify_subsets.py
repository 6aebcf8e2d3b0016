"""Class probabilities of subsets of the tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from tests.factories.lexicon_classifier import LexiconClassifier

from regard.core.batches import END, PAD, START, Input, TokenInput
from regard.core.errors import RegardError
from regard.core.protocols import ClassifierOutput
from regard.tasks.classification import deletion
from regard.tasks.classification.deletion import class_probabilities, classify_subsets, word_mask

VOTES = [0.0, 0.0, 0.0, 0.0, 1.0, -2.0, 0.5]


def model() -> LexiconClassifier:
    return LexiconClassifier(VOTES, None)


def sigmoid(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def test_word_mask() -> None:
    tokens = torch.tensor([[START, 4, 3, END, PAD], [5, 5, 5, 5, 5]])
    found = word_mask(TokenInput(tokens, torch.tensor([4, 2])))
    assert found.tolist() == [[False, True, True, False, False], [True, True, False, False, False]]


def test_kept_tokens_move_together_and_keep_their_segments() -> None:
    seen: list[tuple[list[list[int]], list[list[int]]]] = []

    class Watched(LexiconClassifier):
        def classify(self, input: Input) -> ClassifierOutput:
            assert isinstance(input, TokenInput)
            assert input.segments is not None
            seen.append((input.tokens.tolist(), input.segments.tolist()))
            return super().classify(input)

    tokens = torch.tensor([[START, 4, 5, 6, 4, END]])
    segments = torch.tensor([[0, 0, 0, 1, 2, 2]])
    kept = [np.array([0, 1, 4, 5]), np.array([0, 2, 3, 4, 5])]
    probabilities = classify_subsets(
        Watched(VOTES, None),
        TokenInput(tokens, torch.tensor([6]), segments),
        rows=[0, 0],
        kept=kept,
    )
    assert seen == [
        ([[START, 4, 4, END, PAD], [START, 5, 6, 4, END]], [[0, 0, 2, 2, 0], [0, 0, 1, 2, 2]])
    ]
    assert probabilities[:, 1] == pytest.approx([sigmoid(2.0), sigmoid(-0.5)])


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_batching_does_not_change_results(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    tokens = torch.zeros(len(lengths), 7, dtype=torch.int64)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.tensor(
            data.draw(st.lists(st.integers(3, 6), min_size=length, max_size=length))
        )
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=9).map(sorted))
    kept = [
        np.array(sorted(data.draw(st.sets(st.integers(0, lengths[row] - 1), min_size=1))))
        for row in rows
    ]
    expected = [
        sigmoid(sum(VOTES[tokens[row, position]] for position in positions.tolist()))
        for row, positions in zip(rows, kept, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletion, "EVAL_BATCH_TOKENS", data.draw(st.integers(1, 30)))
        probabilities = classify_subsets(
            model(), TokenInput(tokens, torch.tensor(lengths)), rows=rows, kept=kept
        )
    assert probabilities[:, 1] == pytest.approx(expected, rel=1e-5)


def test_training_mode_raises() -> None:
    with pytest.raises(RegardError, match=r"training mode.*model\.eval\(\)"):
        class_probabilities(model().train(), TokenInput(torch.tensor([[4]]), torch.tensor([1])))
