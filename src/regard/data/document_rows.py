"""Documents as token numbers, with the sentence each token is in and a label, and padded arrays of some.

    tokens      a b c d e PAD PAD
    segments    0 0 1 1 1  1   1

Unlike `TextRows` they have no START and no END: sentences are what is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Int32, Int64

from regard.core.special_tokens import PAD
from regard.data.masked_tokens import NOTHING
from regard.data.text_rows import PaddedTexts
from regard.data.token_store import TokenStore
from regard.data.vocabulary import fingerprint_of


class EncodedDocument(NamedTuple):
    """Token numbers and, for each, which sentence it is in."""

    tokens: Sequence[int]
    segments: Sequence[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentRows:
    """The sources of `store` are the documents; `segments` has a number for each of its source tokens."""

    store: TokenStore
    segments: Int32[np.ndarray, " source_total"]
    labels: Int64[np.ndarray, " rows"]

    @classmethod
    def of(cls, documents: Iterable[EncodedDocument], labels: Sequence[int] | None = None) -> Self:
        """Rows of one document each; without labels, none has one."""
        kept = list(documents)
        store = TokenStore.build((document.tokens, ()) for document in kept)
        known = [NOTHING] * len(store) if labels is None else labels
        segments = np.fromiter(
            (number for document in kept for number in document.segments), dtype=np.int32
        )
        return cls(store=store, segments=segments, labels=np.array(known, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all rows in their order."""
        return fingerprint_of(
            {
                "tokens": self.store.fingerprint(),
                "segments": self.segments.tolist(),
                "labels": self.labels.tolist(),
            }
        )

    def padded(self, rows: Int64[np.ndarray, " rows"]) -> PaddedTexts:
        """These rows with PAD to the longest; padding carries on the last sentence's number."""
        offsets = self.store.source_offsets
        lengths = offsets[rows + 1] - offsets[rows]
        place = np.arange(int(lengths.max(initial=0)))[None]
        inside = place < lengths[:, None]
        index = offsets[rows][:, None] + np.minimum(place, lengths[:, None] - 1)
        tokens = np.where(inside, self.store.source_tokens[index], PAD)
        return PaddedTexts(tokens.astype(np.int64), lengths, self.segments[index].astype(np.int64))
