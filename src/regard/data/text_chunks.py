"""Documents as pieces a model can take, each in two halves, and the pairs that are made of them.

    a document     It is a film. It is old. Bob made it.
    its halves     It is a film.  |  It is old. Bob made it.        the second follows the first
    a false pair   It is a film.  |  They met in Rome.              the second is another document's

A piece is halved where a sentence ends, as near to its middle as there is one, else in the middle. Half
of the pairs, drawn anew for every epoch, are false (Devlin et al. 2019, section 3.1, where pieces are
runs of sentences; here they are runs of tokens).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError
from regard.data.flat_rows import flat_places
from regard.data.masked_tokens import NOTHING
from regard.data.text_rows import TextRows
from regard.data.token_store import TokenStore

FOLLOWS, IS_FOREIGN = 1, 0

Halves = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, kw_only=True, eq=False)
class TextChunks:
    """The sources of `store` are first halves, its targets second ones; each is of one document.

    A row of `longest` tokens is the longest, both halves together. Documents stand in rising order.
    """

    store: TokenStore
    documents: Int64[np.ndarray, " chunks"]
    longest: int

    @classmethod
    def build(
        cls, texts: Iterable[Sequence[int]], *, longest: int, sentence_ends: Collection[int]
    ) -> Self:
        """The pieces of these documents, which are read once and not kept."""
        documents: list[int] = []

        def halved() -> Iterator[Halves]:
            for number, text in enumerate(texts):
                for piece in pieces(text, longest=longest):
                    documents.append(number)
                    yield halves(piece, sentence_ends=sentence_ends)

        store = TokenStore.build(halved())
        return cls(store=store, documents=np.array(documents, dtype=np.int64), longest=longest)

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all pieces in their order."""
        return self.store.fingerprint()

    def rows(self, *, rng: np.random.Generator, pairs: bool) -> TextRows:
        """With `pairs`, halves with the label FOLLOWS or IS_FOREIGN; else whole pieces without one."""
        store, own = self.store, np.arange(len(self))
        second = self._drawn_seconds(rng) if pairs else own
        first_lengths = store.source_lengths
        added = np.minimum(store.target_lengths[second], self.longest - first_lengths)
        row, within, offsets = flat_places(first_lengths + added)
        behind = within - first_lengths[row]
        in_first = behind < 0
        tokens = np.empty(len(row), dtype=np.int32)
        at = store.source_offsets[row] + within
        tokens[in_first] = store.source_tokens[at[in_first]]
        at = store.target_offsets[second[row]] + behind
        tokens[~in_first] = store.target_tokens[at[~in_first]]
        joined = TokenStore(
            source_tokens=tokens,
            source_offsets=offsets,
            target_tokens=np.zeros(0, dtype=np.int32),
            target_offsets=np.zeros_like(offsets),
        )
        if not pairs:
            nothing = np.full(len(self), NOTHING)
            return TextRows(store=joined, first_lengths=first_lengths + added, labels=nothing)
        follows = np.where(second == own, FOLLOWS, IS_FOREIGN)
        labels = np.where(added > 0, follows, NOTHING)
        return TextRows(store=joined, first_lengths=first_lengths, labels=labels)

    def _drawn_seconds(self, rng: np.random.Generator) -> Int64[np.ndarray, " chunks"]:
        """For each first half the row its second half is taken from: half of the time its own."""
        begin = np.searchsorted(self.documents, self.documents, side="left")
        end = np.searchsorted(self.documents, self.documents, side="right")
        others = len(self) - (end - begin)
        if len(others) and not others.all():
            raise RegardError(
                "Pairs of texts need at least two documents, since half of them are of different "
                "ones. Give more documents, a line each, or set task.pairs=false."
            )
        drawn = (end + np.floor(rng.random(len(self)) * others).astype(np.int64)) % max(
            1, len(self)
        )
        lengths = self.store.target_lengths
        # A piece of one token has no second half, to give or to lose.
        swapped = (rng.random(len(self)) < 0.5) & (lengths > 0) & (lengths[drawn] > 0)
        return np.where(swapped, drawn, np.arange(len(self)))


def pieces(text: Sequence[int], *, longest: int) -> list[Sequence[int]]:
    """A text in as few pieces of at most `longest` tokens as there can be, all about as long.

    >>> pieces([4, 5, 6, 7, 8], longest=4)
    [[4, 5, 6], [7, 8]]
    """
    count = -(-len(text) // longest)
    cuts = [-(-place * len(text) // count) for place in range(count + 1)] if count else []
    return [text[begin:end] for begin, end in pairwise(cuts)]


def halves(piece: Sequence[int], *, sentence_ends: Collection[int]) -> Halves:
    """A piece in two, where a sentence ends if one ends inside it.

    >>> halves([4, 9, 5, 6, 7], sentence_ends={9})
    ([4, 9], [5, 6, 7])
    """
    middle = len(piece) / 2
    ends = [place for place in range(1, len(piece)) if piece[place - 1] in sentence_ends]
    cut = min(ends, key=lambda place: abs(place - middle)) if ends else -(-len(piece) // 2)
    return piece[:cut], piece[cut:]
