"""Chunks of documents in two halves, and next-sentence pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.batches import END, START
from regard.core.errors import RegardError
from regard.data.examples import Examples, Ragged
from regard.tasks.masked_lm import (
    IS_NEXT,
    NOT_NEXT,
    paired_rows,
    sample_second_halves,
    split_chunks,
    split_halves,
)

STOP = 9

# No example database, and no deadline on a busy machine.
quiet = settings(database=None, deadline=None)

DOCUMENTS = st.lists(st.lists(st.integers(5, 12), max_size=30), min_size=2, max_size=8)


def chunks_of(documents: list[list[int]], *, max_length: int = 7) -> Any:
    chunks = [
        (owner, split_halves(chunk, sentence_ends={STOP}))
        for owner, document in enumerate(documents)
        for chunk in split_chunks(document, max_length=max_length)
    ]
    return Examples(
        inputs=Ragged.of(halves[0] for _, halves in chunks),
        targets=Ragged.of(halves[1] for _, halves in chunks),
        owners=np.array([owner for owner, _ in chunks], dtype=np.int64),
    )


@quiet
@given(text=st.lists(st.integers(5, 12)), max_length=st.integers(1, 10))
def test_chunks_and_halves_are_lossless(text: list[int], max_length: int) -> None:
    chunks = split_chunks(text, max_length=max_length)
    assert [token for chunk in chunks for token in chunk] == text
    assert all(1 <= len(chunk) <= max_length for chunk in chunks)
    assert len(chunks) == -(-len(text) // max_length)
    for chunk in chunks:
        first, second = split_halves(chunk, sentence_ends={STOP})
        assert [*first, *second] == chunk
        assert first
        assert second or len(chunk) == 1


def test_halves_split_at_a_sentence_end() -> None:
    assert split_halves([5, STOP, 6, 7, 8, 5], sentence_ends={STOP}) == ([5, STOP], [6, 7, 8, 5])
    assert split_halves([5, 6, 7, 8], sentence_ends={STOP}) == ([5, 6], [7, 8])
    assert split_halves([5, 6, 7, STOP], sentence_ends={STOP}) == ([5, 6], [7, STOP])


@quiet
@given(documents=DOCUMENTS, seed=st.integers(0, 2**32))
def test_next_sentence_labels(documents: list[list[int]], seed: int) -> None:
    chunks = chunks_of(documents)
    owners, seconds = chunks.owners, chunks.targets
    if len(set(owners.tolist())) < 2:
        return
    rng = np.random.default_rng(seed)
    rows: Any
    labels: Any
    rows, labels = paired_rows(chunks, rng=rng, next_sentence=True, max_length=7)
    for row, label in enumerate(labels.tolist()):
        tokens, first = rows.inputs[row].tolist(), chunks.inputs[row].tolist()
        assert tokens[: len(first) + 2] == [START, *first, END]
        second = tokens[len(first) + 2 : -1]
        assert len(first) + len(second) <= 7
        if label == NOT_NEXT:
            others = [
                seconds[other].tolist() for other in np.flatnonzero(owners != owners[row]).tolist()
            ]
            assert any(second == other[: len(second)] for other in others)
        else:
            assert second == seconds[row].tolist()
            assert (label == IS_NEXT) == bool(second)


@quiet
@given(documents=DOCUMENTS)
def test_whole_chunks(documents: list[list[int]]) -> None:
    chunks = chunks_of(documents)
    rng = np.random.default_rng(0)
    rows: Any
    labels: Any
    rows, labels = paired_rows(chunks, rng=rng, next_sentence=False, max_length=7)
    whole = [token for row in range(len(rows)) for token in rows.inputs[row].tolist()[1:-1]]
    assert whole == [token for document in documents for token in document]
    assert not rows.segments.any()
    assert labels is None


def test_half_of_the_pairs_are_not_next() -> None:
    chunks = chunks_of([[5, 6, 7, 8]] * 4000)
    rng = np.random.default_rng(0)
    labels: Any = paired_rows(chunks, rng=rng, next_sentence=True, max_length=7).labels
    assert 0.47 < labels.mean() < 0.53


def test_next_sentence_needs_two_documents() -> None:
    with pytest.raises(RegardError, match=r"at least two documents.*task\.next_sentence=false"):
        sample_second_halves(chunks_of([[5, 6] * 20]), np.random.default_rng(0))
