"""The tensors of a batch, filled without a loop over its rows: it is done at every training step."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int32, Int64

from regard.core.pair_batch import PairBatch
from regard.core.special_tokens import END, PAD, START
from regard.data.token_store import TokenStore


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
