"""All pairs of a corpus as token numbers, in four flat arrays.

    source_tokens   c a t o x            source_offsets   0 3 5
    target_tokens   K AE T AA K S        target_offsets   0 3 6

Pair i has the tokens between offsets i and i + 1. A token takes four bytes and a pair sixteen more,
where a Python list of integers would take about eight times as much.
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

# Rows of different lengths laid end to end in one flat array: where each place lies.


class FlatPlaces(NamedTuple):
    """Every place's row and how far into its row it is; `offsets[i]` is where row i begins."""

    row: Int64[np.ndarray, " places"]
    within: Int64[np.ndarray, " places"]
    offsets: Int64[np.ndarray, " rows_and_one"]


def flat_places(lengths: Int64[np.ndarray, " rows"]) -> FlatPlaces:
    """The places of rows of these lengths.

    >>> flat_places(np.array([2, 0, 1])).within.tolist()
    [0, 1, 0]
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    return FlatPlaces(row, np.arange(offsets[-1]) - offsets[row], offsets)


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenStore:
    """Pairs without START, END and padding; batches add those. The arrays are not to be written to."""

    source_tokens: Int32[np.ndarray, " source_total"]
    source_offsets: Int64[np.ndarray, " pairs_and_one"]
    target_tokens: Int32[np.ndarray, " target_total"]
    target_offsets: Int64[np.ndarray, " pairs_and_one"]

    @classmethod
    def build(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Self:
        """The store of these pairs, which are read once and not kept."""
        source, source_ends = array("i"), array("q", [0])
        target, target_ends = array("i"), array("q", [0])
        for source_ids, target_ids in pairs:
            source.extend(source_ids)
            target.extend(target_ids)
            source_ends.append(len(source))
            target_ends.append(len(target))
        return cls(
            source_tokens=_frozen(source, kind=np.int32),
            source_offsets=_frozen(source_ends, kind=np.int64),
            target_tokens=_frozen(target, kind=np.int32),
            target_offsets=_frozen(target_ends, kind=np.int64),
        )

    def __post_init__(self) -> None:
        for tokens in (self.source_tokens, self.target_tokens):
            if tokens.size and int(tokens.min()) < UNKNOWN:
                number = int(tokens.min())
                name = SPECIAL_TOKENS[number] if number >= 0 else "no token"
                raise RegardError(
                    f"A pair holds the number {number} ({name}): pairs are stored without special "
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
        """How many source tokens each pair has."""
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> Int64[np.ndarray, " pairs"]:
        """How many target tokens each pair has."""
        return np.diff(self.target_offsets)

    def select(self, rows: Int64[np.ndarray, " rows"]) -> Self:
        """The store whose pair i is this store's pair rows[i]."""
        source_tokens, source_offsets = _selected(self.source_tokens, self.source_offsets, rows)
        target_tokens, target_offsets = _selected(self.target_tokens, self.target_offsets, rows)
        return type(self)(
            source_tokens=source_tokens,
            source_offsets=source_offsets,
            target_tokens=target_tokens,
            target_offsets=target_offsets,
        )

    @classmethod
    def joined(cls, stores: Sequence[Self]) -> Self:
        """The pairs of all stores, one store after the other."""
        return cls(
            source_tokens=np.concatenate([store.source_tokens for store in stores]),
            source_offsets=_joined_offsets([store.source_offsets for store in stores]),
            target_tokens=np.concatenate([store.target_tokens for store in stores]),
            target_offsets=_joined_offsets([store.target_offsets for store in stores]),
        )

    def fingerprint(self) -> str:
        """A hash of all pairs in their order: equal for equal stores, on any machine."""
        digest = hashlib.blake2b(digest_size=16)
        for numbers, kind in (
            (self.source_offsets, "<i8"),
            (self.source_tokens, "<i4"),
            (self.target_offsets, "<i8"),
            (self.target_tokens, "<i4"),
        ):
            digest.update(np.ascontiguousarray(numbers, dtype=kind).data)
        return digest.hexdigest()


def _frozen(numbers: array[int], *, kind: type[np.int32] | type[np.int64]) -> np.ndarray:
    """The same memory as a numpy array that refuses to be written to."""
    view = np.frombuffer(numbers, dtype=kind)
    view.flags.writeable = False
    return view


def _selected(
    tokens: Int32[np.ndarray, " total"],
    offsets: Int64[np.ndarray, " pairs_and_one"],
    rows: Int64[np.ndarray, " rows"],
) -> tuple[Int32[np.ndarray, " selected"], Int64[np.ndarray, " rows_and_one"]]:
    row, within, selected = flat_places(np.diff(offsets)[rows])
    return tokens[offsets[rows][row] + within], selected


def _joined_offsets(parts: Sequence[Int64[np.ndarray, " _"]]) -> Int64[np.ndarray, " _"]:
    counts = np.concatenate([np.diff(part) for part in parts])
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
