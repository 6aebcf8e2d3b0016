"""A batch of source and target sequences, as token numbers.

    source   c a t END            target   START K AE T END
    source   o x END PAD          target   START AA K S END

A model reads the source and, at every place of the target but the last, predicts the next place.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor

from regard.core.special_tokens import PAD


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
