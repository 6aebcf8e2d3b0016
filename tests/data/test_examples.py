"""Examples: contents, fingerprint, memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from regard.core.batches import END, PAD, START
from regard.data.examples import Examples, Ragged
from regard.data.preprocessor import pair_examples

PAIRS = [([4, 5, 6], [7]), ([], [8, 9]), ([3], []), ([10, 11], [12, 13, 14])]


def test_contents() -> None:
    store: Any = pair_examples(iter(PAIRS))
    assert len(store) == 4
    assert [(store.inputs[i].tolist(), store.targets[i].tolist()) for i in range(4)] == PAIRS
    assert store.inputs.lengths.tolist() == [3, 0, 1, 2]
    assert store.targets.lengths.tolist() == [1, 2, 0, 3]
    for outside in (4, -1):
        with pytest.raises(IndexError, match="there are 4"):
            store.inputs[outside]


def test_empty_store() -> None:
    store = pair_examples([])
    assert len(store) == 0
    assert store.inputs.lengths.tolist() == []


def test_arrays_are_read_only() -> None:
    store = pair_examples(PAIRS)
    with pytest.raises(ValueError, match="read-only"):
        store.inputs[0][0] = 9


def test_fingerprint() -> None:
    first = pair_examples(PAIRS).fingerprint()
    assert first == pair_examples(tuple(PAIRS)).fingerprint()
    others = [
        PAIRS[::-1],
        [(target, source) for source, target in PAIRS],
        [([4, 5], [7]), ([6], [8, 9]), *PAIRS[2:]],  # the same tokens, other offsets
        [([4, 5, 7], [7]), *PAIRS[1:]],
    ]
    assert first not in [pair_examples(other).fingerprint() for other in others]
    assert len(first) == 32


def test_peak_memory_while_building() -> None:
    def pairs() -> Iterator[tuple[list[int], list[int]]]:
        for number in range(20_000):
            yield [4 + number % 1000] * 20, [5] * 20

    tracemalloc.start()
    try:
        store = pair_examples(pairs())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    needed = 20_000 * (2 * 20 * 4 + 2 * 8)
    assert store.inputs.values.dtype == np.int32
    assert peak < 1.6 * needed


def test_padding_of_texts_and_documents() -> None:
    texts = Examples(inputs=Ragged.of([[5, 6, 7, 8], [5, 6], []]), start=True, end=True)
    found: Any = texts.collate_inputs(np.array([1, 0, 2]))
    assert found.tokens.tolist() == [
        [START, 5, 6, END, PAD, PAD],
        [START, 5, 6, 7, 8, END],
        [START, END, PAD, PAD, PAD, PAD],
    ]
    assert (found.lengths.tolist(), found.segments) == ([4, 6, 2], None)
    documents = Examples(
        inputs=Ragged.of([[5, 6, 7, 8, 9], [3], [4, 4, 5]]),
        segments=np.array([0, 0, 1, 1, 1, 0, 0, 1, 1], dtype=np.int32),
    )
    found = documents.collate_inputs(np.array([2, 0]))
    assert found.tokens.tolist() == [[4, 4, 5, PAD, PAD], [5, 6, 7, 8, 9]]
    assert found.segments.tolist() == [[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]]
    chosen: Any = documents.select(np.array([2]))
    assert (chosen.inputs[0].tolist(), chosen.segments.tolist()) == ([4, 4, 5], [0, 1, 1])
    assert len({documents.fingerprint(), chosen.fingerprint(), texts.fingerprint()}) == 3
