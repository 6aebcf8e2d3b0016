"""Batches of texts, made when they are asked for, and moved to where the model is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Int64

from regard.core.text_batch import TextBatch
from regard.data.batching import Batches, evaluation_batches
from regard.data.document_rows import DocumentRows
from regard.data.masked_tokens import NOTHING
from regard.data.text_rows import TextRows

PLACES_AT_A_TIME = 8192  # no gradients are kept while evaluating, so batches may be larger

Make = Callable[[Int64[np.ndarray, " rows"]], TextBatch]


class TextBatches(Sequence[TextBatch]):
    """Which rows go together is known; `make` turns them into a batch, one batch at a time."""

    def __init__(self, *, cuts: Batches, make: Make) -> None:
        self._cuts = cuts
        self._make = make

    def __len__(self) -> int:
        return len(self._cuts)

    def indices(self, index: int) -> Int64[np.ndarray, " rows"]:
        """Which rows batch `index` holds."""
        return self._cuts.indices(index)

    @overload
    def __getitem__(self, index: int) -> TextBatch: ...

    @overload
    def __getitem__(self, index: slice) -> TextBatches: ...

    def __getitem__(self, index: int | slice) -> TextBatch | TextBatches:
        """One batch; or, of a slice, some of the batches, still unmade."""
        if isinstance(index, slice):
            return TextBatches(cuts=self._cuts[index], make=self._make)
        return self._make(self.indices(index))


def evaluation_cuts(rows: TextRows | DocumentRows) -> Batches:
    """Which rows are evaluated together: all of them, by length; the longest fits too."""
    longest = int(rows.store.source_lengths.max(initial=0)) + 3
    return evaluation_batches(rows.store, max_tokens=max(PLACES_AT_A_TIME, longest))


def plain_batch(rows: TextRows | DocumentRows, chosen: Int64[np.ndarray, " rows"]) -> TextBatch:
    """The batch of these rows; no token is to be told."""
    tokens, lengths, segments = (torch.from_numpy(array) for array in rows.padded(chosen))
    return TextBatch(
        tokens=tokens,
        lengths=lengths,
        segments=segments,
        wanted=torch.full_like(tokens, NOTHING),
        labels=torch.from_numpy(rows.labels[chosen]),
    )


def beside(model: Any, batch: TextBatch) -> TextBatch:
    """The batch where the model is."""
    device = next(iter(model.parameters())).device
    return TextBatch(*(tensor.to(device) for tensor in batch))
