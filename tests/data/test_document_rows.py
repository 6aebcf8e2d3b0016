"""Documents with sentences, padded."""

from __future__ import annotations

import numpy as np

from regard.data.noising import NOTHING
from regard.data.text_dataset import DocumentRows, EncodedDocument

DOCUMENTS = [
    EncodedDocument([5, 6, 7, 8, 9], [0, 0, 1, 1, 1]),
    EncodedDocument([3], [0]),
    EncodedDocument([4, 4, 5], [0, 1, 1]),
]


def test_rows_are_padded_at_their_end() -> None:
    rows = DocumentRows.of(DOCUMENTS, [1, 0, 1])
    padded = rows.padded(np.array([2, 0]))
    assert padded.tokens.tolist() == [[4, 4, 5, 0, 0], [5, 6, 7, 8, 9]]
    assert padded.lengths.tolist() == [3, 5]
    assert padded.segments.tolist() == [[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]]


def test_without_labels_there_are_none() -> None:
    assert DocumentRows.of(DOCUMENTS).labels.tolist() == [NOTHING] * 3


def test_a_fingerprint_shows_any_change() -> None:
    rows = DocumentRows.of(DOCUMENTS, [1, 0, 1])
    moved = [EncodedDocument([5, 6, 7, 8, 9], [0, 0, 0, 1, 1]), *DOCUMENTS[1:]]
    others = [
        DocumentRows.of(DOCUMENTS, [1, 1, 1]),
        DocumentRows.of(moved, [1, 0, 1]),
        DocumentRows.of(DOCUMENTS[::-1], [1, 0, 1]),
    ]
    assert DocumentRows.of(DOCUMENTS, [1, 0, 1]).fingerprint() == rows.fingerprint()
    assert len({rows.fingerprint(), *(other.fingerprint() for other in others)}) == 4
