"""Gaps: nothing is lost, their share is the one asked for, and chance is a function of its seed."""

from __future__ import annotations

import time
from collections import Counter
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.batches import UNKNOWN
from regard.core.errors import RegardError
from regard.data.noising import (
    corrupt,
    corrupt_spans,
    corrupted_store,
    put_spans_together,
    put_together,
)
from regard.data.token_store import TokenStore

TEXTS = st.lists(st.integers(4, 20), min_size=1, max_size=50)
SEEDS = st.integers(0, 2**32)
SHARES = st.floats(0.01, 1.0)

# Nothing is written beside the tests, and a busy machine is no failure.
quiet = settings(database=None, deadline=None)


def texts_store(texts: list[list[int]]) -> TokenStore:
    return TokenStore.build(((), text) for text in texts)


@quiet
@given(
    text=TEXTS,
    seed=SEEDS,
    longest_share=SHARES,
    shortest=st.integers(1, 8),
    keep_whole=st.floats(0, 1),
    shortest_kept_share=SHARES,
)
def test_one_gap_loses_nothing(
    text: list[int],
    seed: int,
    longest_share: float,
    shortest: int,
    keep_whole: float,
    shortest_kept_share: float,
) -> None:
    shown, span = corrupt(
        text,
        rng=np.random.default_rng(seed),
        longest_share=longest_share,
        shortest=shortest,
        keep_whole=keep_whole,
        shortest_kept_share=shortest_kept_share,
    )
    whole = put_together(shown, span)
    assert whole == text[: len(whole)]
    assert len(whole) >= max(1, shortest_kept_share * len(text))
    assert min(shortest, len(whole)) <= len(span)
    assert len(span) <= max(shortest, longest_share * len(whole))
    assert shown.count(UNKNOWN) == 1


@quiet
@given(text=TEXTS, seed=SEEDS)
def test_a_text_is_whole_unless_it_may_be_cut_short(text: list[int], seed: int) -> None:
    assert put_together(*corrupt(text, rng=np.random.default_rng(seed))) == text


@quiet
@given(texts=st.lists(st.lists(st.integers(3, 20), max_size=9), max_size=9), seed=SEEDS)
def test_a_store_loses_nothing(texts: list[list[int]], seed: int) -> None:
    store = corrupted_store(texts_store(texts), seed=seed, epoch=2, keep_whole=0.5)
    assert len(store) == len(texts)
    for index, text in enumerate(texts):
        shown, span = store.source(index).tolist(), store.target(index).tolist()
        gaps = [place for place, token in enumerate(shown) if token == UNKNOWN]
        wholes = [[*shown[:gap], *span, *shown[gap + 1 :]] for gap in gaps]
        assert any(whole == text[: len(whole)] for whole in wholes)


def test_a_store_of_one_text_is_cut_as_the_text_is() -> None:
    text = list(range(4, 40))
    for epoch in range(20):
        store = corrupted_store(texts_store([text]), seed=5, epoch=epoch, keep_whole=0.3)
        alone = corrupt(text, rng=np.random.default_rng([5, epoch]), keep_whole=0.3)
        assert (store.source(0).tolist(), store.target(0).tolist()) == alone


def test_a_store_is_a_function_of_seed_and_epoch() -> None:
    texts = texts_store([list(range(4, 4 + length)) for length in range(1, 60)])
    prints = [
        corrupted_store(texts, seed=seed, epoch=epoch).fingerprint()
        for seed, epoch in [(1, 2), (1, 2), (2, 1), (1, 3)]
    ]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_every_place_and_every_length_comes_up() -> None:
    rng = np.random.default_rng(0)
    drawn = Counter(
        tuple(corrupt([4, 5, 6], rng=rng, longest_share=1.0).hidden) for _ in range(3000)
    )
    assert set(drawn) == {(4,), (5,), (6,), (4, 5), (5, 6), (4, 5, 6)}
    by_length = [sum(drawn[span] for span in drawn if len(span) == size) for size in (1, 2, 3)]
    assert all(900 < count < 1100 for count in by_length)


def test_a_large_store_takes_about_no_time() -> None:
    lengths = np.random.default_rng(0).integers(5, 40, size=100_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    store = TokenStore(
        source_tokens=np.zeros(0, dtype=np.int32),
        source_offsets=np.zeros_like(offsets),
        target_tokens=np.full(offsets[-1], 7, dtype=np.int32),
        target_offsets=offsets,
    )
    begin = time.process_time()
    corrupted_store(store, seed=0, epoch=0)
    assert time.process_time() - begin < 2  # a fifth of that where nothing else runs


@quiet
@given(text=TEXTS, seed=SEEDS, share=SHARES, mean_length=st.floats(1, 10))
def test_several_gaps_lose_nothing_and_do_not_touch(
    text: list[int], seed: int, share: float, mean_length: float
) -> None:
    rng = np.random.default_rng(seed)
    shown, hidden = corrupt_spans(text, share=share, mean_length=mean_length, rng=rng)
    assert put_spans_together(shown, hidden) == text
    gaps = shown.count(UNKNOWN)
    assert len(hidden) - gaps == max(1, round(share * len(text)))
    assert hidden.count(UNKNOWN) == gaps >= 1
    assert all(
        token != UNKNOWN or len(list(run)) == 1
        for tokens in (shown, hidden)
        for token, run in groupby(tokens)
    )


def test_gaps_are_as_long_as_asked_on_average() -> None:
    rng = np.random.default_rng(0)
    shown, hidden = corrupt_spans(list(range(4, 404)), share=0.15, mean_length=3.0, rng=rng)
    assert shown.count(UNKNOWN) == 20
    assert len(hidden) == 20 + 60


def test_where_several_gaps_lie() -> None:
    rng = np.random.default_rng(0)
    drawn = Counter(
        tuple(corrupt_spans([4, 5, 6], share=0.6, mean_length=1.0, rng=rng).shown)
        for _ in range(20)
    )
    assert set(drawn) == {(3, 5, 3)}  # two of three that do not touch: one way
    ends = {
        tuple(corrupt_spans([4, 5, 6], share=0.3, mean_length=1.0, rng=rng).shown)
        for _ in range(50)
    }
    assert ends == {(3, 5, 6), (4, 3, 6), (4, 5, 3)}


def test_nothing_and_one_token() -> None:
    rng = np.random.default_rng(0)
    assert corrupt([9], rng=rng, keep_whole=0.0) == ([UNKNOWN], [9])
    assert corrupt_spans([9], share=0.15, mean_length=3.0, rng=rng) == ([UNKNOWN], [UNKNOWN, 9])
    assert corrupt_spans([], share=0.15, mean_length=3.0, rng=rng) == ([], [])
    assert corrupt([], rng=rng) == ([UNKNOWN], [])
    assert len(corrupted_store(texts_store([]), seed=0, epoch=0)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"longest_share": 0.0}, r"longest_share=0\.0: a share is above 0"),
        ({"longest_share": 1.5}, r"longest_share=1\.5"),
        ({"shortest_kept_share": float("nan")}, "shortest_kept_share=nan"),
        ({"keep_whole": -0.1}, r"keep_whole=-0\.1: it is a probability"),
        ({"shortest": 0}, "shortest=0: a gap takes at least one token"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        corrupt([4, 5], rng=np.random.default_rng(0), **options)


def test_spans_that_mean_nothing_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(RegardError, match=r"mean_length=0\.5"):
        corrupt_spans([4, 5], share=0.5, mean_length=0.5, rng=rng)
    with pytest.raises(RegardError, match="share=0"):
        corrupt_spans([4, 5], share=0.0, mean_length=1.0, rng=rng)
    with pytest.raises(RegardError, match="would be taken for a gap"):
        corrupt_spans([4, UNKNOWN], share=0.5, mean_length=1.0, rng=rng)


def test_what_does_not_fit_is_not_put_together() -> None:
    with pytest.raises(RegardError, match="has 2 tokens <unknown>"):
        put_together([3, 4, 3], [5])
    with pytest.raises(RegardError, match="has 0 tokens <unknown>"):
        put_together([4], [5])
    with pytest.raises(RegardError, match="has 2 gaps, but 1 spans"):
        put_spans_together([3, 4, 3], [3, 5])
    with pytest.raises(RegardError, match="must begin with <unknown>"):
        put_spans_together([3, 4], [5])
