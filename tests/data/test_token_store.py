"""The token store: contents, fingerprint, memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.data.token_store import TokenStore

PAIRS = [([4, 5, 6], [7]), ([], [8, 9]), ([3], []), ([10, 11], [12, 13, 14])]


def test_contents() -> None:
    store = TokenStore.build(iter(PAIRS))
    assert len(store) == 4
    assert [(store.source(i).tolist(), store.target(i).tolist()) for i in range(4)] == PAIRS
    assert store.source_lengths.tolist() == [3, 0, 1, 2]
    assert store.target_lengths.tolist() == [1, 2, 0, 3]
    for outside in (4, -1):
        with pytest.raises(IndexError, match="the store has 4 pairs"):
            store.source(outside)


def test_empty_store() -> None:
    store = TokenStore.build([])
    assert len(store) == 0
    assert store.source_lengths.tolist() == []


def test_arrays_are_read_only() -> None:
    store = TokenStore.build(PAIRS)
    with pytest.raises(ValueError, match="read-only"):
        store.source(0)[0] = 9


def test_fingerprint() -> None:
    first = TokenStore.build(PAIRS).fingerprint()
    assert first == TokenStore.build(tuple(PAIRS)).fingerprint()
    others = [
        PAIRS[::-1],
        [(target, source) for source, target in PAIRS],
        [([4, 5], [7]), ([6], [8, 9]), *PAIRS[2:]],  # the same tokens, other offsets
        [([4, 5, 7], [7]), *PAIRS[1:]],
    ]
    assert first not in [TokenStore.build(other).fingerprint() for other in others]
    assert len(first) == 32


@pytest.mark.parametrize("number", [0, 1, 2, -4])
def test_special_tokens_raise(number: int) -> None:
    with pytest.raises(RegardError, match=f"token id {number} "):
        TokenStore.build([([4], [5, number])])


def test_peak_memory_while_building() -> None:
    def pairs() -> Iterator[tuple[list[int], list[int]]]:
        for number in range(20_000):
            yield [4 + number % 1000] * 20, [5] * 20

    tracemalloc.start()
    try:
        store = TokenStore.build(pairs())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    needed = 20_000 * (2 * 20 * 4 + 2 * 8)
    assert store.source_tokens.dtype == np.int32
    assert peak < 1.6 * needed
