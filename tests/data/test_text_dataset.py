"""Datasets of texts, documents and chunks: padding, labels, next-sentence pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.data.noising import IGNORE_INDEX
from regard.data.text_dataset import (
    IS_NEXT,
    NOT_NEXT,
    ChunkDataset,
    DocumentDataset,
    EncodedDocument,
    TextDataset,
    split_chunks,
    split_halves,
)

STOP = 9

# No example database, and no deadline on a busy machine.
quiet = settings(database=None, deadline=None)

DOCUMENTS = st.lists(st.lists(st.integers(5, 12), max_size=30), min_size=2, max_size=8)


def chunks_of(documents: list[list[int]], *, max_length: int = 7) -> ChunkDataset:
    return ChunkDataset.build(iter(documents), max_length=max_length, sentence_ends={STOP})


def test_padding_of_texts_and_pairs() -> None:
    texts = TextDataset.of_texts([[5, 6, 7, 8], [5, 6]], labels=[3, 1])
    pair = TextDataset(store=texts.store, first_lengths=np.array([2, 2]), labels=texts.labels)
    tokens, lengths, segments = pair.padded(np.array([0, 1]))
    assert tokens.tolist() == [
        [START, 5, 6, END, 7, 8, END],
        [START, 5, 6, END, PAD, PAD, PAD],
    ]
    assert lengths.tolist() == [7, 4]
    assert segments.tolist() == [[0, 0, 0, 0, 1, 1, 1], [0] * 7]
    tokens, lengths, segments = texts.padded(np.array([1, 0]))
    assert tokens.tolist() == [[START, 5, 6, END, PAD, PAD], [START, 5, 6, 7, 8, END]]
    assert not segments.any()
    assert texts.fingerprint() != pair.fingerprint()
    assert texts.fingerprint() != TextDataset.of_texts([[5, 6, 7, 8], [5, 6]]).fingerprint()


def test_empty_text() -> None:
    tokens, lengths, _ = TextDataset.of_texts([[], [5]]).padded(np.array([0, 1]))
    assert tokens.tolist() == [[START, END, PAD], [START, 5, END]]
    assert lengths.tolist() == [2, 3]


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
    if len(set(chunks.documents.tolist())) < 2:
        return
    rows = chunks.examples(rng=np.random.default_rng(seed), next_sentence=True)
    seconds = [chunks.store.target(row).tolist() for row in range(len(chunks))]
    for row, label in enumerate(rows.labels.tolist()):
        tokens, first = rows.store.source(row).tolist(), int(rows.first_lengths[row])
        assert tokens[:first] == chunks.store.source(row).tolist()
        assert len(tokens) <= 7
        if label == NOT_NEXT:
            others = chunks.documents != chunks.documents[row]
            candidates = [seconds[other] for other in np.flatnonzero(others)]
            assert any(tokens[first:] == second[: len(tokens) - first] for second in candidates)
        else:
            assert tokens[first:] == seconds[row]
            assert (label == IS_NEXT) == bool(seconds[row])


@quiet
@given(documents=DOCUMENTS)
def test_whole_chunks(documents: list[list[int]]) -> None:
    chunks = chunks_of(documents)
    rows = chunks.examples(rng=np.random.default_rng(0), next_sentence=False)
    whole = [token for row in range(len(rows)) for token in rows.store.source(row).tolist()]
    assert whole == [token for document in documents for token in document]
    assert (rows.first_lengths == rows.store.source_lengths).all()
    assert (rows.labels == -1).all()


def test_half_of_the_pairs_are_not_next() -> None:
    chunks = chunks_of([[5, 6, 7, 8]] * 4000)
    labels = chunks.examples(rng=np.random.default_rng(0), next_sentence=True).labels
    assert 0.47 < labels.mean() < 0.53


def test_next_sentence_needs_two_documents() -> None:
    with pytest.raises(RegardError, match=r"at least two documents.*task\.next_sentence=false"):
        chunks_of([[5, 6] * 20]).examples(rng=np.random.default_rng(0), next_sentence=True)


ENCODED = [
    EncodedDocument([5, 6, 7, 8, 9], [0, 0, 1, 1, 1]),
    EncodedDocument([3], [0]),
    EncodedDocument([4, 4, 5], [0, 1, 1]),
]


def test_padding_of_documents() -> None:
    rows = DocumentDataset.of(ENCODED, [1, 0, 1])
    padded = rows.padded(np.array([2, 0]))
    assert padded.tokens.tolist() == [[4, 4, 5, 0, 0], [5, 6, 7, 8, 9]]
    assert padded.lengths.tolist() == [3, 5]
    assert padded.segments.tolist() == [[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]]


def test_documents_without_labels() -> None:
    assert DocumentDataset.of(ENCODED).labels.tolist() == [IGNORE_INDEX] * 3


def test_fingerprint_of_documents() -> None:
    rows = DocumentDataset.of(ENCODED, [1, 0, 1])
    moved = [EncodedDocument([5, 6, 7, 8, 9], [0, 0, 0, 1, 1]), *ENCODED[1:]]
    others = [
        DocumentDataset.of(ENCODED, [1, 1, 1]),
        DocumentDataset.of(moved, [1, 0, 1]),
        DocumentDataset.of(ENCODED[::-1], [1, 0, 1]),
    ]
    assert DocumentDataset.of(ENCODED, [1, 0, 1]).fingerprint() == rows.fingerprint()
    assert len({rows.fingerprint(), *(other.fingerprint() for other in others)}) == 4
