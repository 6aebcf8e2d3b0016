"""Batching by token count with length bucketing, and padding (collation) of pairs to tensors.

Pairs of similar length share a batch, which keeps padding low, and a batch holds as many pairs as fit into
`max_tokens`, so that all batches cost about the same. Composition and order are a function of (seed,
epoch); batches are collated lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
import torch
from jaxtyping import Int32, Int64

from regard.core.batches import END, PAD, START, PairBatch
from regard.core.errors import RegardError
from regard.data.token_store import TokenStore, flat_positions


def framed_lengths(
    store: TokenStore,
) -> tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]:
    """Source and target lengths in a batch: END included, and START of the target."""
    return store.source_lengths + 1, store.target_lengths + 2


def length_order(
    store: TokenStore, rows: Int64[np.ndarray, " pairs"]
) -> Int64[np.ndarray, " pairs"]:
    """Indices that sort `rows` by source length, then target length; the sort is stable.

    Target lengths alternate between ascending and descending from one source length to the next, so
    that a batch across two source lengths has targets of similar length.
    """
    source, target = store.source_lengths[rows], store.target_lengths[rows]
    return np.lexsort((np.where(source % 2 == 0, target, -target), source))


def batch_bounds(
    store: TokenStore,
    order: Int64[np.ndarray, " pairs"],
    *,
    max_tokens: int,
    max_rows: int | None,
) -> tuple[Int64[np.ndarray, " batches"], Int64[np.ndarray, " batches"]]:
    """Start and end of each batch in `order`; each takes as many pairs as fit."""
    if max_rows is not None and max_rows < 1:
        raise RegardError(f"max_rows={max_rows}: use 1 or more.")
    source, target = (lengths[order] for lengths in framed_lengths(store))
    _check_pairs_fit(order, source + target, max_tokens=max_tokens)
    row_limit = len(order) if max_rows is None else max_rows
    cuts = [0] if len(order) else []
    start = source_width = target_width = 0
    for index, (source_length, target_length) in enumerate(
        zip(source.tolist(), target.tolist(), strict=True)
    ):
        source_width = max(source_width, source_length)
        target_width = max(target_width, target_length)
        rows = index + 1 - start
        if rows > row_limit or rows * (source_width + target_width) > max_tokens:
            cuts.append(index)
            start, source_width, target_width = index, source_length, target_length
    starts = np.array(cuts, dtype=np.int64)
    return starts, np.append(starts[1:], len(order)).astype(np.int64)[: len(starts)]


def _check_pairs_fit(
    order: Int64[np.ndarray, " pairs"], lengths: Int64[np.ndarray, " pairs"], *, max_tokens: int
) -> None:
    """Raise on a pair longer than a batch."""
    if len(lengths) and int(lengths.max()) > max_tokens:
        longest = int(lengths.argmax())
        count = int((lengths > max_tokens).sum())
        raise RegardError(
            f"Pair {int(order[longest])} has {int(lengths[longest])} tokens, but a batch holds "
            f"max_tokens={max_tokens} ({count} pairs are too long). Raise max_tokens to "
            f"{int(lengths.max())} or more, or remove long pairs from the data."
        )


def collate_pairs(store: TokenStore, rows: Int64[np.ndarray, " rows"]) -> PairBatch:
    """The padded batch of these pairs: END after the source, START and END around the target."""
    source, source_lengths = _pad(store.source_tokens, store.source_offsets, rows, before=0)
    target, target_lengths = _pad(store.target_tokens, store.target_offsets, rows, before=1)
    target[:, 0] = START
    return PairBatch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target=torch.from_numpy(target),
        target_lengths=torch.from_numpy(target_lengths),
    )


def _pad(
    tokens: Int32[np.ndarray, " total"],
    offsets: Int64[np.ndarray, " pairs_and_one"],
    rows: Int64[np.ndarray, " rows"],
    *,
    before: int,
) -> tuple[Int64[np.ndarray, "rows width"], Int64[np.ndarray, " rows"]]:
    """Rows of tokens after `before` free positions, with END and PAD; vectorised over rows."""
    firsts = offsets[rows]
    counts = offsets[rows + 1] - firsts
    lengths = counts + before + 1
    width = int(lengths.max())
    filled = np.full(len(rows) * width, PAD, dtype=np.int64)
    row, within, _ = flat_positions(counts)
    filled[row * width + before + within] = tokens[firsts[row] + within]
    filled[np.arange(len(rows)) * width + lengths - 1] = END
    return filled.reshape(len(rows), width), lengths


class Batches(Sequence[PairBatch]):
    """The batches of one epoch, collated lazily: batch i has the rows order[starts[i]:ends[i]]."""

    def __init__(
        self,
        *,
        store: TokenStore,
        order: Int64[np.ndarray, " pairs"],
        starts: Int64[np.ndarray, " batches"],
        ends: Int64[np.ndarray, " batches"],
    ) -> None:
        self._store = store
        self._order = order
        self._starts = starts
        self._ends = ends

    def __len__(self) -> int:
        return len(self._starts)

    def indices(self, index: int) -> Int64[np.ndarray, " rows"]:
        """Store indices of the pairs in batch `index`, row by row."""
        return self._order[self._starts[index] : self._ends[index]]

    @overload
    def __getitem__(self, index: int) -> PairBatch: ...

    @overload
    def __getitem__(self, index: slice) -> Batches: ...

    def __getitem__(self, index: int | slice) -> PairBatch | Batches:
        """One batch; or, for a slice, a lazy sequence of batches."""
        if isinstance(index, slice):
            starts, ends = self._starts[index], self._ends[index]
            return Batches(store=self._store, order=self._order, starts=starts, ends=ends)
        return collate_pairs(self._store, self.indices(index))

    @property
    def padding_fraction(self) -> float:
        """Fraction of the positions in these batches that is padding."""
        source, target = framed_lengths(self._store)
        positions = filled = 0
        for index in range(len(self)):
            rows = self.indices(index)
            positions += len(rows) * int(source[rows].max() + target[rows].max())
            filled += int(source[rows].sum() + target[rows].sum())
        return 1 - filled / positions if positions else 0.0


def token_batches(
    store: TokenStore,
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
    bucket: bool = True,
    max_rows: int | None = None,
) -> Batches:
    """Batches of at most `max_tokens` positions: rows × (source width + target width), padding included.

    With `bucket`, shuffled pairs are sorted by length, cut into batches, and the batches shuffled.
    Without, batches are cut from the shuffled pairs.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(store))
    if bucket:
        order = order[length_order(store, order)]
    starts, ends = batch_bounds(store, order, max_tokens=max_tokens, max_rows=max_rows)
    if bucket:
        shuffled = generator.permutation(len(starts))
        starts, ends = starts[shuffled], ends[shuffled]
    return Batches(store=store, order=order, starts=starts, ends=ends)


def fixed_batches(store: TokenStore, *, rows: int, seed: int, epoch: int) -> Batches:
    """Shuffled batches of `rows` pairs each; the last may be smaller."""
    if rows < 1:
        raise RegardError(f"rows={rows}: use 1 or more.")
    order = np.random.default_rng([seed, epoch]).permutation(len(store))
    starts = np.arange(0, len(store), rows, dtype=np.int64)
    ends = np.minimum(starts + rows, len(store))
    return Batches(store=store, order=order, starts=starts, ends=ends)


def evaluation_batches(
    store: TokenStore, *, max_tokens: int, max_rows: int | None = None
) -> Batches:
    """All pairs sorted by length, not shuffled; `indices` maps results back to the store."""
    order = length_order(store, np.arange(len(store)))
    starts, ends = batch_bounds(store, order, max_tokens=max_tokens, max_rows=max_rows)
    return Batches(store=store, order=order, starts=starts, ends=ends)
