"""A tokenised corpus of pairs in four flat arrays (ragged arrays with offsets).

    source_tokens   c a t o x            source_offsets   0 3 5
    target_tokens   K AE T AA K S        target_offsets   0 3 6

Pair i has the tokens between offsets i and i + 1. A token takes four bytes and a pair sixteen more, about
an eighth of lists of Python integers.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Int32, Int64

from regard.core.batches import SPECIAL_TOKENS, UNKNOWN
from regard.core.errors import RegardError


class FlatPositions(NamedTuple):
    """Row and position within the row for every element of a flat array; row i begins at `offsets[i]`."""

    row: Int64[np.ndarray, " positions"]
    within: Int64[np.ndarray, " positions"]
    offsets: Int64[np.ndarray, " rows_and_one"]


def flat_positions(lengths: Int64[np.ndarray, " rows"]) -> FlatPositions:
    """The positions of rows of these lengths, concatenated.

    >>> flat_positions(np.array([2, 0, 1])).within.tolist()
    [0, 1, 0]
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    return FlatPositions(row, np.arange(offsets[-1]) - offsets[row], offsets)


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenStore:
    """Pairs without START, END and padding, which batches add. The arrays are read-only."""

    source_tokens: Int32[np.ndarray, " source_total"]
    source_offsets: Int64[np.ndarray, " pairs_and_one"]
    target_tokens: Int32[np.ndarray, " target_total"]
    target_offsets: Int64[np.ndarray, " pairs_and_one"]

    @classmethod
    def build(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Self:
        """Build the store in one pass over the pairs."""
        source, source_ends = array("i"), array("q", [0])
        target, target_ends = array("i"), array("q", [0])
        for source_ids, target_ids in pairs:
            source.extend(source_ids)
            target.extend(target_ids)
            source_ends.append(len(source))
            target_ends.append(len(target))
        return cls(
            source_tokens=_read_only(source, kind=np.int32),
            source_offsets=_read_only(source_ends, kind=np.int64),
            target_tokens=_read_only(target, kind=np.int32),
            target_offsets=_read_only(target_ends, kind=np.int64),
        )

    def __post_init__(self) -> None:
        for tokens in (self.source_tokens, self.target_tokens):
            if tokens.size and int(tokens.min()) < UNKNOWN:
                token = int(tokens.min())
                name = SPECIAL_TOKENS[token] if token >= 0 else "no token"
                raise RegardError(
                    f"A pair contains the token id {token} ({name}): pairs are stored without special "
                    "tokens other than <unknown>. Give them as a vocabulary's encode returns them."
                )

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def source(self, index: int) -> Int32[np.ndarray, " length"]:
        """The source tokens of one pair."""
        return self.source_tokens[self._span(self.source_offsets, index)]

    def target(self, index: int) -> Int32[np.ndarray, " length"]:
        """The target tokens of one pair."""
        return self.target_tokens[self._span(self.target_offsets, index)]

    def _span(self, offsets: Int64[np.ndarray, " pairs_and_one"], index: int) -> slice:
        if not 0 <= index < len(self):
            raise IndexError(f"There is no pair {index}: the store has {len(self)} pairs.")
        return slice(offsets[index], offsets[index + 1])

    @property
    def source_lengths(self) -> Int64[np.ndarray, " pairs"]:
        """Number of source tokens of each pair."""
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> Int64[np.ndarray, " pairs"]:
        """Number of target tokens of each pair."""
        return np.diff(self.target_offsets)

    def select(self, rows: Int64[np.ndarray, " rows"]) -> Self:
        """A store of the pairs `rows`, in that order."""
        source_tokens, source_offsets = _select(self.source_tokens, self.source_offsets, rows)
        target_tokens, target_offsets = _select(self.target_tokens, self.target_offsets, rows)
        return type(self)(
            source_tokens=source_tokens,
            source_offsets=source_offsets,
            target_tokens=target_tokens,
            target_offsets=target_offsets,
        )

    @classmethod
    def concatenate(cls, stores: Sequence[Self]) -> Self:
        """The pairs of all stores, in order."""
        return cls(
            source_tokens=np.concatenate([store.source_tokens for store in stores]),
            source_offsets=_concatenate_offsets([store.source_offsets for store in stores]),
            target_tokens=np.concatenate([store.target_tokens for store in stores]),
            target_offsets=_concatenate_offsets([store.target_offsets for store in stores]),
        )

    def fingerprint(self) -> str:
        """A hash of all pairs in order, the same on every machine."""
        digest = hashlib.blake2b(digest_size=16)
        for numbers, kind in (
            (self.source_offsets, "<i8"),
            (self.source_tokens, "<i4"),
            (self.target_offsets, "<i8"),
            (self.target_tokens, "<i4"),
        ):
            digest.update(np.ascontiguousarray(numbers, dtype=kind).data)
        return digest.hexdigest()


def _read_only(numbers: array[int], *, kind: type[np.int32] | type[np.int64]) -> np.ndarray:
    """A read-only numpy view of the same memory."""
    view = np.frombuffer(numbers, dtype=kind)
    view.flags.writeable = False
    return view


def _select(
    tokens: Int32[np.ndarray, " total"],
    offsets: Int64[np.ndarray, " pairs_and_one"],
    rows: Int64[np.ndarray, " rows"],
) -> tuple[Int32[np.ndarray, " selected"], Int64[np.ndarray, " rows_and_one"]]:
    row, within, selected = flat_positions(np.diff(offsets)[rows])
    return tokens[offsets[rows][row] + within], selected


def _concatenate_offsets(parts: Sequence[Int64[np.ndarray, " _"]]) -> Int64[np.ndarray, " _"]:
    counts = np.concatenate([np.diff(part) for part in parts])
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
