"""A batch of source and target sequences, as token numbers.

    source   c a t END            target   START K AE T END
    source   o x END PAD          target   START AA K S END

A model reads the source and, at every place of the target but the last, predicts the next place.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor

# The token numbers that mean the same in every vocabulary.


PAD = 0
START = 1
END = 2
UNKNOWN = 3

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")


class PairBatch(NamedTuple):
    """Rows of pairs; lengths count everything but padding."""

    source: Int[Tensor, "batch source_length"]
    source_lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target_length"]
    target_lengths: Int[Tensor, " batch"]

    @property
    def num_predictions(self) -> int:
        """How many tokens are predicted: those after START."""
        return int(self.target_lengths.sum()) - self.target_lengths.numel()

    @property
    def num_tokens(self) -> int:
        """Tokens read or predicted, padding not counted."""
        return int(self.source_lengths.sum()) + self.num_predictions

    @property
    def given(self) -> Int[Tensor, "batch predictions"]:
        """What the decoder is fed: the target without its last place."""
        return self.target[:, :-1]

    @property
    def wanted(self) -> Int[Tensor, "batch predictions"]:
        """What the decoder must say at each place of `given`; PAD where there is nothing to say."""
        return self.target[:, 1:]

    @property
    def predicted(self) -> Bool[Tensor, "batch predictions"]:
        """The places of `wanted` that count."""
        return self.wanted != PAD


# A batch of texts to be understood, as token numbers: nothing is written, places and rows are
# judged.
#
# tokens     START a b END c d END          START a b END PAD PAD PAD segments     0   0 0  0  1 1
# 1             0   0 0  0   0   0   0 wanted       ·   · b  ·  · d  ·             ·   a ·  ·   ·
# ·   ·
#
# A row holds one text, or two that are told apart by their segments.


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
