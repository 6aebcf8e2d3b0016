"""A batch of texts to be understood, as token numbers: nothing is written, places and rows are judged.

    tokens     START a b END c d END          START a b END PAD PAD PAD
    segments     0   0 0  0  1 1  1             0   0 0  0   0   0   0
    wanted       ·   · b  ·  · d  ·             ·   a ·  ·   ·   ·   ·

A row holds one text, or two that are told apart by their segments.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor


class TextBatch(NamedTuple):
    """Rows of texts; lengths count everything but padding.

    `wanted` is the token that is to be told at a place, `labels` what is to be told of a row; -1 where
    nothing is.
    """

    tokens: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch length"]
    wanted: Int[Tensor, "batch length"]
    labels: Int[Tensor, " batch"]

    @property
    def predicted(self) -> Bool[Tensor, "batch length"]:
        """The places where a token is to be told."""
        return self.wanted >= 0

    @property
    def labelled(self) -> Bool[Tensor, " batch"]:
        """The rows of which something is to be told."""
        return self.labels >= 0

    @property
    def num_predictions(self) -> int:
        """How much is to be told: tokens and rows."""
        return int(self.predicted.sum()) + int(self.labelled.sum())

    @property
    def num_tokens(self) -> int:
        """Tokens read, padding not counted."""
        return int(self.lengths.sum())
