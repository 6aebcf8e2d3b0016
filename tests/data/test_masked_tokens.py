"""Masking: as many places as asked, none of them special, and each fate as often as asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.errors import RegardError
from regard.data.noising import NOTHING, masked_rows

MASK, VOCABULARY = 4, 50

# Nothing is written beside the tests, and a busy machine is no failure.
quiet = settings(database=None, deadline=None)


def rows_of(tokens: list[list[int]]) -> np.ndarray:
    width = max(map(len, tokens), default=0)
    return np.array([row + [0] * (width - len(row)) for row in tokens], dtype=np.int64)


@quiet
@given(
    tokens=st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
    share=st.floats(0, 1),
)
def test_the_right_places_are_chosen(tokens: list[list[int]], seed: int, share: float) -> None:
    rows = rows_of(tokens)
    rng = np.random.default_rng(seed)
    masked = masked_rows(rows, rng=rng, mask=MASK, vocabulary=VOCABULARY, share=share)
    chosen = masked.wanted != NOTHING
    assert (masked.wanted[chosen] == rows[chosen]).all()
    assert (masked.tokens[~chosen] == rows[~chosen]).all()
    assert (rows[chosen] > MASK).all()
    assert (masked.tokens[chosen] >= MASK).all()
    assert (masked.tokens < VOCABULARY).all()
    for row, of_row in zip(rows, chosen, strict=True):
        ordinary = int((row > MASK).sum())
        assert of_row.sum() == (max(1, np.rint(share * ordinary)) if ordinary else 0)


def test_the_fates_are_as_often_as_asked() -> None:
    rows = np.random.default_rng(0).integers(MASK + 1, VOCABULARY, size=(400, 200))
    tokens, wanted = masked_rows(
        rows, rng=np.random.default_rng(1), mask=MASK, vocabulary=VOCABULARY
    )
    chosen = wanted != NOTHING
    assert (chosen.sum(axis=1) == 30).all()
    hidden = (tokens == MASK)[chosen].mean()
    stayed = (tokens == rows)[chosen].mean()
    assert hidden == pytest.approx(0.8, abs=0.01)
    # One of 45 random tokens is the token that stood there.
    assert stayed == pytest.approx(0.1 + 0.1 / 45, abs=0.01)
    put_in = tokens[chosen & (tokens != MASK) & (tokens != rows)]
    assert set(put_in.tolist()) == set(range(MASK + 1, VOCABULARY))
    # Every place of a row is as likely as any other.
    assert chosen.mean(axis=0).std() == pytest.approx(np.sqrt(0.15 * 0.85 / 400), rel=0.2)


def test_the_same_generator_gives_the_same() -> None:
    rows = rows_of([[1, 7, 8, 9, 2], [1, 9, 2]])
    first, again, other = (
        masked_rows(rows, rng=np.random.default_rng(seed), mask=MASK, vocabulary=VOCABULARY)
        for seed in (3, 3, 4)
    )
    assert (first.tokens == again.tokens).all()
    assert (first.wanted == again.wanted).all()
    assert (first.wanted != other.wanted).any()


def test_all_hidden_can_be_checked_by_hand() -> None:
    tokens, wanted = masked_rows(
        rows_of([[1, 7, 3, 2], [1, 2]]),
        rng=np.random.default_rng(0),
        mask=MASK,
        vocabulary=VOCABULARY,
        hidden=1.0,
        random=0.0,
    )
    assert tokens.tolist() == [[1, MASK, 3, 2], [1, 2, 0, 0]]
    assert wanted.tolist() == [[-1, 7, -1, -1], [-1, -1, -1, -1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 1.5}, r"share=1\.5: it is a share"),
        ({"random": -0.1}, r"random=-0\.1"),
        ({"hidden": 0.8, "random": 0.3}, "together more than all"),
        ({"vocabulary": 5}, "vocabulary=5 has no tokens after mask=4"),
    ],
)
def test_what_means_nothing_is_refused(options: dict, message: str) -> None:
    given_options = {"mask": MASK, "vocabulary": VOCABULARY, **options}
    with pytest.raises(RegardError, match=message):
        masked_rows(rows_of([[7]]), rng=np.random.default_rng(0), **given_options)
