"""Rows of one text or two, with a label each, and the padded arrays made from some of them.

    first a b, second c d    →    START a b END c d END      segments  0 0 0 0 1 1 1
    first a b                →    START a b END PAD PAD PAD  segments  0 0 0 0 0 0 0

START plays the part of [CLS], END that of [SEP] (Devlin et al. 2019, figure 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Int64

from regard.core.special_tokens import END, PAD, START
from regard.data.masked_tokens import NOTHING
from regard.data.token_store import TokenStore
from regard.data.vocabulary import fingerprint_of


class PaddedTexts(NamedTuple):
    """Rows as a model reads them; lengths count everything but padding."""

    tokens: Int64[np.ndarray, "rows width"]
    lengths: Int64[np.ndarray, " rows"]
    segments: Int64[np.ndarray, "rows width"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TextRows:
    """The sources of `store` are the tokens of both texts, the first `first_lengths` of the first.

    A label is NOTHING where there is none.
    """

    store: TokenStore
    first_lengths: Int64[np.ndarray, " rows"]
    labels: Int64[np.ndarray, " rows"]

    @classmethod
    def of_texts(cls, texts: Sequence[Sequence[int]], labels: Sequence[int] | None = None) -> Self:
        """Rows of one text each; without labels, none has one."""
        store = TokenStore.build((text, ()) for text in texts)
        known = [NOTHING] * len(store) if labels is None else labels
        return cls(
            store=store,
            first_lengths=store.source_lengths,
            labels=np.array(known, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all rows in their order."""
        labels, firsts = self.labels.tolist(), self.first_lengths.tolist()
        return fingerprint_of(
            {"tokens": self.store.fingerprint(), "labels": labels, "first": firsts}
        )

    def padded(self, rows: Int64[np.ndarray, " rows"]) -> PaddedTexts:
        """These rows with START before, END after each text, and PAD to the longest."""
        offsets = self.store.source_offsets
        first = self.first_lengths[rows][:, None]
        total = (offsets[rows + 1] - offsets[rows])[:, None]
        lengths = total + np.where(total > first, 3, 2)
        place = np.arange(int(lengths.max(initial=0)))[None]
        # One place further for START, and one more behind the END of the first text.
        token = place - 1 - (place > first + 1)
        inside = (token >= 0) & (token < total) & (place != first + 1)
        filled = np.full(inside.shape, PAD, dtype=np.int64)
        filled[inside] = self.store.source_tokens[(offsets[rows][:, None] + token)[inside]]
        filled[:, 0] = START
        filled[(place == first + 1) | (place == lengths - 1)] = END
        segments = (place > first + 1) & (place < lengths)
        return PaddedTexts(filled, lengths[:, 0], segments.astype(np.int64))
