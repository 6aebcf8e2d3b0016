"""Which pairs go into a batch together: sorted by length, then cut where a batch is full."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError
from regard.data.token_store import TokenStore


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
