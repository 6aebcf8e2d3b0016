"""Texts read again without some tokens: what stays closes ranks, whatever the portions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from tests.factories.lexicon_classifier import LexiconClassifier

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.tasks.classification import deletion as rereading
from regard.tasks.classification.deletion import probabilities_of, reread, word_places

VOTES = [0.0, 0.0, 0.0, 0.0, 1.0, -2.0, 0.5]


def model() -> LexiconClassifier:
    return LexiconClassifier(VOTES, None)


def sigmoid(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def test_marks_and_padding_are_no_words() -> None:
    tokens = torch.tensor([[START, 4, 3, END, PAD], [5, 5, 5, 5, 5]])
    found = word_places(tokens, torch.tensor([4, 2]))
    assert found.tolist() == [[False, True, True, False, False], [True, True, False, False, False]]


def test_what_is_kept_closes_ranks_and_keeps_its_sentences() -> None:
    seen: list[tuple[list[list[int]], list[list[int]]]] = []

    class Watched(LexiconClassifier):
        def classified(self, tokens, lengths, segments=None):  # type: ignore[no-untyped-def]
            seen.append((tokens.tolist(), segments.tolist()))
            return super().classified(tokens, lengths, segments)

    tokens = torch.tensor([[START, 4, 5, 6, 4, END]])
    segments = torch.tensor([[0, 0, 0, 1, 2, 2]])
    kept = [np.array([0, 1, 4, 5]), np.array([0, 2, 3, 4, 5])]
    said = reread(Watched(VOTES, None), tokens, segments, rows=[0, 0], kept=kept)
    assert seen == [
        ([[START, 4, 4, END, PAD], [START, 5, 6, 4, END]], [[0, 0, 2, 2, 0], [0, 0, 1, 2, 2]])
    ]
    assert said[:, 1] == pytest.approx([sigmoid(2.0), sigmoid(-0.5)])


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_portions_and_their_order_change_nothing(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    tokens = torch.zeros(len(lengths), 7, dtype=torch.int64)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.tensor(
            data.draw(st.lists(st.integers(3, 6), min_size=length, max_size=length))
        )
    versions = data.draw(
        st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=9).map(sorted)
    )
    kept = [
        np.array(sorted(data.draw(st.sets(st.integers(0, lengths[row] - 1), min_size=1))))
        for row in versions
    ]
    wanted = [
        sigmoid(sum(VOTES[tokens[row, place]] for place in places.tolist()))
        for row, places in zip(versions, kept, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rereading, "PLACES_AT_A_TIME", data.draw(st.integers(1, 30)))
        said = reread(model(), tokens, None, rows=versions, kept=kept)
    assert said[:, 1] == pytest.approx(wanted, rel=1e-5)


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(RegardError, match=r"in training mode.*Call model\.eval\(\) first"):
        probabilities_of(model().train(), torch.tensor([[4]]), torch.tensor([1]), None)
