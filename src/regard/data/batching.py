"""The batches of one epoch: which pairs go together, and the padded tensors made from them.

Pairs of like length are put together, so that little of a batch is padding, and a batch takes as many
pairs as fit into a number of places, so that every batch costs about the same. Which pairs and in
which order is a function of (seed, epoch) alone; a batch itself is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError
from regard.core.pair_batch import PairBatch
from regard.data.batch_cuts import filled_cuts, length_order, places_of
from regard.data.batch_tensors import pair_batch
from regard.data.token_store import TokenStore


class Batches(Sequence[PairBatch]):
    """The batches of one epoch, made one at a time: batch i has the rows order[starts[i]:ends[i]]."""

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
        """Which pairs of the store batch `index` holds, row by row."""
        return self._order[self._starts[index] : self._ends[index]]

    @overload
    def __getitem__(self, index: int) -> PairBatch: ...

    @overload
    def __getitem__(self, index: slice) -> Batches: ...

    def __getitem__(self, index: int | slice) -> PairBatch | Batches:
        """One batch; or, of a slice, some of the batches, still unmade."""
        if isinstance(index, slice):
            starts, ends = self._starts[index], self._ends[index]
            return Batches(store=self._store, order=self._order, starts=starts, ends=ends)
        return pair_batch(self._store, self.indices(index))

    @property
    def padding_share(self) -> float:
        """Which part of all places of these batches is padding."""
        source, target = places_of(self._store)
        places = filled = 0
        for index in range(len(self)):
            rows = self.indices(index)
            places += len(rows) * int(source[rows].max() + target[rows].max())
            filled += int(source[rows].sum() + target[rows].sum())
        return 1 - filled / places if places else 0.0


def token_batches(
    store: TokenStore,
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
    bucket: bool = True,
    max_rows: int | None = None,
) -> Batches:
    """Batches of at most `max_tokens` places: rows × (longest source + longest target), END and START too.

    With `bucket`, pairs are sorted by their lengths, chance deciding among equals, cut into batches,
    and the batches shuffled. Without, batches are cut from the shuffled pairs.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(store))
    if bucket:
        order = order[length_order(store, order)]
    starts, ends = filled_cuts(store, order, max_tokens=max_tokens, max_rows=max_rows)
    if bucket:
        shuffled = generator.permutation(len(starts))
        starts, ends = starts[shuffled], ends[shuffled]
    return Batches(store=store, order=order, starts=starts, ends=ends)


def fixed_batches(store: TokenStore, *, rows: int, seed: int, epoch: int) -> Batches:
    """Shuffled batches of `rows` pairs each, whatever their lengths; the last may have fewer."""
    if rows < 1:
        raise RegardError(f"rows={rows}: a batch has at least one pair. Use 1 or more.")
    order = np.random.default_rng([seed, epoch]).permutation(len(store))
    starts = np.arange(0, len(store), rows, dtype=np.int64)
    ends = np.minimum(starts + rows, len(store))
    return Batches(store=store, order=order, starts=starts, ends=ends)


def evaluation_batches(
    store: TokenStore, *, max_tokens: int, max_rows: int | None = None
) -> Batches:
    """All pairs by length, not shuffled; `indices` says where each result belongs."""
    order = length_order(store, np.arange(len(store)))
    starts, ends = filled_cuts(store, order, max_tokens=max_tokens, max_rows=max_rows)
    return Batches(store=store, order=order, starts=starts, ends=ends)
