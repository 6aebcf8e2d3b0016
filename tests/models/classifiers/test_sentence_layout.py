"""Sentence layout: an example, and properties of any batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from regard.core.errors import RegardError
from regard.models.classifiers.hierarchical import SentenceLayout

SEGMENTS = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 2, 2]])
LENGTHS = torch.tensor([5, 7])

Documents = st.lists(
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), min_size=1, max_size=5
)


def test_two_documents() -> None:
    layout = SentenceLayout.of(LENGTHS, SEGMENTS)
    assert layout.sentence.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]
    assert layout.lengths.tolist() == [2, 3, 5, 2]
    assert layout.row.tolist() == [0, 0, 1, 1]
    assert layout.number.tolist() == [0, 1, 0, 1]
    assert layout.segment.tolist() == [0, 1, 0, 2]
    assert layout.first_word.tolist() == [0, 2, 5, 10]
    assert layout.sentences_per_document().tolist() == [2, 2]


@given(Documents)
def test_every_sentence_is_in_one_bucket_and_every_word_at_one_position(
    documents: list[list[int]],
) -> None:
    lengths = torch.tensor([sum(sizes) for sizes in documents])
    segments = torch.zeros(len(documents), int(lengths.max()), dtype=torch.long)
    for row, sizes in enumerate(documents):
        numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
        segments[row, : len(numbers)] = torch.tensor(numbers)
    layout = SentenceLayout.of(lengths, segments)
    sizes = [size for sizes in documents for size in sizes if size]
    assert layout.lengths.tolist() == sizes
    length_buckets = layout.length_buckets()
    assert sorted(torch.cat(length_buckets).tolist()) == list(range(len(sizes)))
    words = torch.cat([index[is_word] for index, is_word in map(layout.padded, length_buckets)])
    assert sorted(words.tolist()) == list(range(sum(sizes)))


def test_short_sentences_are_bucketed() -> None:
    sizes = [100, *[10] * 300]
    segments = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))[None]
    layout = SentenceLayout.of(torch.tensor([sum(sizes)]), segments)
    padded_tokens = sum(layout.padded(bucket)[0].numel() for bucket in layout.length_buckets())
    assert sum(sizes) <= padded_tokens < 0.5 * 100 * len(sizes)


def test_decreasing_segments() -> None:
    with pytest.raises(RegardError, match="segment ids"):
        SentenceLayout.of(torch.tensor([3]), torch.tensor([[0, 1, 0]]))
    # Padding and document boundaries are ignored.
    SentenceLayout.of(torch.tensor([2, 3]), torch.tensor([[0, 1, 0], [0, 0, 1]]))
