"""The batches of one epoch: which pairs go together, and the padded tensors made from them.

Pairs of like length are put together, so that little of a batch is padding, and a batch takes as many
pairs as fit into a number of places, so that every batch costs about the same. Which pairs and in
which order is a function of (seed, epoch) alone; a batch itself is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
import torch
from jaxtyping import Int32, Int64

from regard.core.batches import END, PAD, START, PairBatch
from regard.core.errors import RegardError
from regard.data.token_store import TokenStore

# Which pairs go into a batch together: sorted by length, then cut where a batch is full.


def places_of(
    store: TokenStore,
) -> tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]:
    """How many places each source and each target takes in a batch: END counts, and START."""
    return store.source_lengths + 1, store.target_lengths + 2


def length_order(
    store: TokenStore, rows: Int64[np.ndarray, " pairs"]
) -> Int64[np.ndarray, " pairs"]:
    """The places of `rows`, by source length, then by target length, then as they stand.

    Target lengths rise in one source length and fall in the next, so that a batch which spans
    two source lengths still has targets of like length.
    """
    source, target = store.source_lengths[rows], store.target_lengths[rows]
    return np.lexsort((np.where(source % 2 == 0, target, -target), source))


def filled_cuts(
    store: TokenStore,
    order: Int64[np.ndarray, " pairs"],
    *,
    max_tokens: int,
    max_rows: int | None,
) -> tuple[Int64[np.ndarray, " batches"], Int64[np.ndarray, " batches"]]:
    """Where each batch starts and ends in `order`, each taking as many pairs as fit."""
    if max_rows is not None and max_rows < 1:
        raise RegardError(f"max_rows={max_rows}: a batch has at least one pair. Use 1 or more.")
    source, target = (places[order] for places in places_of(store))
    check_every_pair_fits(order, source + target, max_tokens=max_tokens)
    most_rows = len(order) if max_rows is None else max_rows
    cuts = [0] if len(order) else []
    start = widest_source = widest_target = 0
    for place, (source_places, target_places) in enumerate(
        zip(source.tolist(), target.tolist(), strict=True)
    ):
        widest_source = max(widest_source, source_places)
        widest_target = max(widest_target, target_places)
        rows = place + 1 - start
        if rows > most_rows or rows * (widest_source + widest_target) > max_tokens:
            cuts.append(place)
            start, widest_source, widest_target = place, source_places, target_places
    starts = np.array(cuts, dtype=np.int64)
    return starts, np.append(starts[1:], len(order)).astype(np.int64)[: len(starts)]


def check_every_pair_fits(
    order: Int64[np.ndarray, " pairs"], places: Int64[np.ndarray, " pairs"], *, max_tokens: int
) -> None:
    """Refuse a pair that is a batch too large all by itself."""
    if len(places) and int(places.max()) > max_tokens:
        longest = int(places.argmax())
        count = int((places > max_tokens).sum())
        raise RegardError(
            f"Pair {int(order[longest])} takes {int(places[longest])} places, but a batch holds "
            f"max_tokens={max_tokens} ({count} pairs are too long). Raise max_tokens to "
            f"{int(places.max())} or more, or leave long pairs out of the data."
        )


# The tensors of a batch, filled without a loop over its rows: it is done at every training step.


def pair_batch(store: TokenStore, rows: Int64[np.ndarray, " rows"]) -> PairBatch:
    """The tensors of these pairs: END after the source, START and END around the target."""
    source, source_lengths = padded(store.source_tokens, store.source_offsets, rows, before=0)
    target, target_lengths = padded(store.target_tokens, store.target_offsets, rows, before=1)
    target[:, 0] = START
    return PairBatch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target=torch.from_numpy(target),
        target_lengths=torch.from_numpy(target_lengths),
    )


def padded(
    tokens: Int32[np.ndarray, " total"],
    offsets: Int64[np.ndarray, " pairs_and_one"],
    rows: Int64[np.ndarray, " rows"],
    *,
    before: int,
) -> tuple[Int64[np.ndarray, "rows width"], Int64[np.ndarray, " rows"]]:
    """Rows of tokens with `before` places left free, END after the last, PAD to the longest row."""
    firsts = offsets[rows]
    counts = offsets[rows + 1] - firsts
    lengths = counts + before + 1
    width = int(lengths.max())
    filled = np.full(len(rows) * width, PAD, dtype=np.int64)
    # Place of every token, in the flat arrays read from and written to: its row's first place,
    # plus how far into its row it stands.
    row_ends = np.cumsum(counts)
    within = np.arange(row_ends[-1]) - np.repeat(row_ends - counts, counts)
    row_starts = np.arange(len(rows)) * width
    filled[np.repeat(row_starts + before, counts) + within] = tokens[
        np.repeat(firsts, counts) + within
    ]
    filled[row_starts + lengths - 1] = END
    return filled.reshape(len(rows), width), lengths


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
