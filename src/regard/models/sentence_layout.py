"""Where the words of each sentence stand in a batch of documents: a ragged layout without padding.

    row 0   a b c d e PAD PAD     segments  0 0 1 1 1 · ·      sentences  ab  cde
    row 1   f g h i j k   l       segments  0 0 0 0 0 2 2                 fghij  kl     (1 is empty)

    word       a b c d e f g h i j k l      the real tokens of the batch, one after the other
    sentence   0 0 1 1 1 2 2 2 2 2 3 3      which sentence each is in, empty ones not counted
    number     ab 0, cde 1, fghij 0, kl 1   a sentence's place in its document

Sentences of like length can be read together (`groups`), so that one long sentence does not make all
others as long.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.core.errors import RegardError

LEAST_SHARE = 0.8  # of a group's longest sentence that its shortest has
LEAST_PLACES = 2048  # a smaller group would cost more in calls than it saves in padding


class SentenceLayout(NamedTuple):
    """The words and sentences of a batch, in order."""

    real: Bool[Tensor, "batch length"]
    sentence: Int[Tensor, " words"]
    lengths: Int[Tensor, " sentences"]
    row: Int[Tensor, " sentences"]
    number: Int[Tensor, " sentences"]
    segment: Int[Tensor, " sentences"]

    @classmethod
    def of(
        cls,
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"],
    ) -> Self:
        """The layout of these rows; a row's segments must not fall from left to right."""
        batch, length = segments.shape
        real = torch.arange(length, device=segments.device)[None] < lengths[:, None]
        row_of = torch.arange(batch, device=segments.device)[:, None].expand(batch, length)[real]
        segment_of = segments[real]
        begins = torch.ones_like(row_of, dtype=torch.bool)
        same_row = row_of[1:] == row_of[:-1]
        if bool((same_row & (segment_of[1:] < segment_of[:-1])).any()):
            raise RegardError(
                "The segments of a text fall from one token to the next: they must count its sentences "
                "from left to right, 0 0 1 1 1 2."
            )
        begins[1:] = ~same_row | (segment_of[1:] != segment_of[:-1])
        sentence = begins.cumsum(0) - 1
        first = begins.nonzero()[:, 0]
        row = row_of[first]
        counted = torch.arange(len(row), device=row.device)
        first_of_row = torch.ones_like(row, dtype=torch.bool)
        first_of_row[1:] = row[1:] != row[:-1]
        document_start = torch.where(first_of_row, counted, 0).cummax(0).values
        return cls(
            real=real,
            sentence=sentence,
            lengths=torch.bincount(sentence, minlength=len(row)),
            row=row,
            number=counted - document_start,
            segment=segment_of[first],
        )

    @property
    def first_word(self) -> Int[Tensor, " sentences"]:
        """The place of each sentence's first word among all words."""
        return self.lengths.cumsum(0) - self.lengths

    def per_document(self) -> Int[Tensor, " batch"]:
        """How many sentences, empty ones not counted, each document has."""
        return torch.bincount(self.row, minlength=self.real.shape[0])

    def groups(self) -> list[Int[Tensor, " some"]]:
        """The sentences in groups of like length; every sentence is in one."""
        by_length = torch.argsort(self.lengths, descending=True, stable=True)
        sizes = self.lengths[by_length].tolist()
        cuts, start = [], 0
        for place, size in enumerate(sizes):
            longest = sizes[start]
            if size < LEAST_SHARE * longest and (place - start) * longest >= LEAST_PLACES:
                cuts.append(by_length[start:place])
                start = place
        return [*cuts, by_length[start:]] if sizes else []

    def padded(
        self, group: Int[Tensor, " some"]
    ) -> tuple[Int[Tensor, "some longest"], Bool[Tensor, "some longest"]]:
        """Which word stands at each place of these sentences, and which places have one."""
        lengths = self.lengths[group]
        place = torch.arange(int(lengths.max()), device=lengths.device)[None]
        there = place < lengths[:, None]
        words = self.first_word[group][:, None] + place
        return torch.where(there, words, 0), there
