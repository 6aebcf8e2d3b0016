"""Where the words of sentences stand: by hand, and by what must hold of any batch."""

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


def test_two_documents_by_hand() -> None:
    layout = SentenceLayout.of(LENGTHS, SEGMENTS)
    assert layout.sentence.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]
    assert layout.lengths.tolist() == [2, 3, 5, 2]
    assert layout.row.tolist() == [0, 0, 1, 1]
    assert layout.number.tolist() == [0, 1, 0, 1]
    assert layout.segment.tolist() == [0, 1, 0, 2]
    assert layout.first_word.tolist() == [0, 2, 5, 10]
    assert layout.per_document().tolist() == [2, 2]


@given(Documents)
def test_every_sentence_is_in_one_group_and_every_word_in_one_place(
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
    groups = layout.groups()
    assert sorted(torch.cat(groups).tolist()) == list(range(len(sizes)))
    words = torch.cat([index[there] for index, there in map(layout.padded, groups)])
    assert sorted(words.tolist()) == list(range(sum(sizes)))


def test_short_sentences_are_not_padded_to_the_longest() -> None:
    sizes = [100, *[10] * 300]
    segments = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))[None]
    layout = SentenceLayout.of(torch.tensor([sum(sizes)]), segments)
    places = sum(layout.padded(group)[0].numel() for group in layout.groups())
    assert sum(sizes) <= places < 0.5 * 100 * len(sizes)


def test_segments_that_fall_are_refused() -> None:
    with pytest.raises(RegardError, match="fall from one token to the next"):
        SentenceLayout.of(torch.tensor([3]), torch.tensor([[0, 1, 0]]))
    # What padding carries is of no account, nor where another document begins.
    SentenceLayout.of(torch.tensor([2, 3]), torch.tensor([[0, 1, 0], [0, 0, 1]]))
