"""Rows of texts as a model reads them, and the pairs made of documents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.data.text_dataset import FOLLOWS, IS_FOREIGN, TextChunks, TextRows, halves, pieces

STOP = 9

# Nothing is written beside the tests, and a busy machine is no failure.
quiet = settings(database=None, deadline=None)

DOCUMENTS = st.lists(st.lists(st.integers(5, 12), max_size=30), min_size=2, max_size=8)


def chunks_of(documents: list[list[int]], *, longest: int = 7) -> TextChunks:
    return TextChunks.build(iter(documents), longest=longest, sentence_ends={STOP})


def test_one_text_and_two() -> None:
    texts = TextRows.of_texts([[5, 6, 7, 8], [5, 6]], labels=[3, 1])
    pair = TextRows(store=texts.store, first_lengths=np.array([2, 2]), labels=texts.labels)
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
    assert texts.fingerprint() != TextRows.of_texts([[5, 6, 7, 8], [5, 6]]).fingerprint()


def test_a_text_without_tokens() -> None:
    tokens, lengths, _ = TextRows.of_texts([[], [5]]).padded(np.array([0, 1]))
    assert tokens.tolist() == [[START, END, PAD], [START, 5, END]]
    assert lengths.tolist() == [2, 3]


@quiet
@given(text=st.lists(st.integers(5, 12)), longest=st.integers(1, 10))
def test_pieces_and_halves_lose_nothing(text: list[int], longest: int) -> None:
    cut = pieces(text, longest=longest)
    assert [token for piece in cut for token in piece] == text
    assert all(1 <= len(piece) <= longest for piece in cut)
    assert len(cut) == -(-len(text) // longest)
    for piece in cut:
        first, second = halves(piece, sentence_ends={STOP})
        assert [*first, *second] == piece
        assert first
        assert second or len(piece) == 1


def test_halves_part_at_the_end_of_a_sentence() -> None:
    assert halves([5, STOP, 6, 7, 8, 5], sentence_ends={STOP}) == ([5, STOP], [6, 7, 8, 5])
    assert halves([5, 6, 7, 8], sentence_ends={STOP}) == ([5, 6], [7, 8])
    assert halves([5, 6, 7, STOP], sentence_ends={STOP}) == ([5, 6], [7, STOP])


@quiet
@given(documents=DOCUMENTS, seed=st.integers(0, 2**32))
def test_pairs_are_what_their_label_says(documents: list[list[int]], seed: int) -> None:
    chunks = chunks_of(documents)
    if len(set(chunks.documents.tolist())) < 2:
        return
    rows = chunks.rows(rng=np.random.default_rng(seed), pairs=True)
    seconds = [chunks.store.target(row).tolist() for row in range(len(chunks))]
    for row, label in enumerate(rows.labels.tolist()):
        tokens, first = rows.store.source(row).tolist(), int(rows.first_lengths[row])
        assert tokens[:first] == chunks.store.source(row).tolist()
        assert len(tokens) <= 7
        if label == IS_FOREIGN:
            others = chunks.documents != chunks.documents[row]
            foreign = [seconds[other] for other in np.flatnonzero(others)]
            assert any(tokens[first:] == second[: len(tokens) - first] for second in foreign)
        else:
            assert tokens[first:] == seconds[row]
            assert (label == FOLLOWS) == bool(seconds[row])


@quiet
@given(documents=DOCUMENTS)
def test_without_pairs_pieces_are_whole(documents: list[list[int]]) -> None:
    chunks = chunks_of(documents)
    rows = chunks.rows(rng=np.random.default_rng(0), pairs=False)
    whole = [token for row in range(len(rows)) for token in rows.store.source(row).tolist()]
    assert whole == [token for document in documents for token in document]
    assert (rows.first_lengths == rows.store.source_lengths).all()
    assert (rows.labels == -1).all()


def test_half_of_the_pairs_are_foreign() -> None:
    chunks = chunks_of([[5, 6, 7, 8]] * 4000)
    labels = chunks.rows(rng=np.random.default_rng(0), pairs=True).labels
    assert 0.47 < labels.mean() < 0.53


def test_pairs_need_two_documents() -> None:
    with pytest.raises(RegardError, match=r"at least two documents.*task\.pairs=false"):
        chunks_of([[5, 6] * 20]).rows(rng=np.random.default_rng(0), pairs=True)
