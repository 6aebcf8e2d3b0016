"""The output layer of CTC and its loss, alone or beside a decoder (joint training).

    encoded frames → linear → log p of the blank and of every token, in each frame

    (1 − w) · cross-entropy of the decoder + w · CTC loss of the encoder      (Kim et al. 2017, eq. 10)

The CTC loss, whose alignments are monotonic, teaches the encoder to tell which frames belong to which
token long before the cross-attention of a decoder has found out. One head can be told, as in Garg et al.
(2019), who train a head on alignments: `alignment_loss`.
"""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.batches import END, SPECIAL_TOKENS, FrameInput, SequenceTarget
from regard.core.errors import RegardError
from regard.core.options import PositiveInt, validated
from regard.models.generation.ctc_search import BLANK, MINUS_INFINITY
from regard.models.seq2seq.ctc_alignment import min_frames, token_posteriors

MIN_WEIGHT = 1e-6  # of attention in a logarithm; with fewer, the gradient is 0


class CTCOutput(nn.Linear):
    """A linear layer to the blank and all tokens after END, with the CTC loss (Graves et al. 2006).

    The blank has the id of padding, which no target holds, so that no token's id moves.
    """

    @validated
    def __init__(
        self,
        *,
        model_dim: PositiveInt,
        target_vocabulary: Annotated[int, Field(ge=len(SPECIAL_TOKENS))],
    ) -> None:
        # Not of START and END: with log p = −∞ the gradient of PyTorch's loss is NaN.
        super().__init__(model_dim, target_vocabulary - END)

    def scores(self, encoded: FrameInput) -> Float[Tensor, "batch frames outputs"]:
        """log p of the blank, then of every token after END."""
        return self(encoded.frames).log_softmax(dim=-1)

    def log_probabilities(
        self, encoded: FrameInput
    ) -> Float[Tensor, "batch frames target_vocabulary"]:
        """log p of every token and of the blank, in each frame; −∞ of START and END."""
        scores = self.scores(encoded)
        blank, tokens = scores[..., :1], scores[..., 1:]
        never = blank.new_full((*blank.shape[:2], END - BLANK), MINUS_INFINITY)
        return torch.cat([blank, never, tokens], dim=-1)

    def losses(self, encoded: FrameInput, target: SequenceTarget) -> Float[Tensor, " batch"]:
        """−log p(target | source) of each row; 0 of a row without a path."""
        losses: Tensor = F.ctc_loss(
            self.scores(encoded).transpose(0, 1),
            target.tokens[:, 1:-1] - END,
            encoded.lengths,
            target.lengths - 2,
            blank=BLANK,
            reduction="none",
            zero_infinity=True,
        )
        return losses

    def alignment_loss(
        self,
        encoded: FrameInput,
        target: SequenceTarget,
        weights: Float[Tensor, "batch queries frames"],
    ) -> Float[Tensor, ""]:
        """Cross-entropy of attention weights against the CTC posteriors of each token, summed.

        Row i of the weights is of the query that predicts token i + 1, where START is token 0. The
        posteriors are constants, so that the attention follows CTC and not the other way round.
        """
        tokens, counts = target.tokens[:, 1:-1], target.lengths - 2
        with torch.no_grad():
            scores = self.log_probabilities(encoded)
            aligned = token_posteriors(scores, encoded.lengths, tokens, counts)
        log_weights = weights[:, : tokens.shape[1]].clamp_min(MIN_WEIGHT).log()
        return -(aligned * log_weights).sum()


def has_path(encoded: FrameInput, target: SequenceTarget) -> Bool[Tensor, " batch"]:
    """Whether a row has as many frames as its target needs."""
    return _needed(target) <= encoded.lengths


def validate_paths(encoded: FrameInput, target: SequenceTarget) -> None:
    """Raise if a target is too long for its frames."""
    if bool(has_path(encoded, target).all()):
        return
    needed = _needed(target)
    row = int((needed - encoded.lengths).argmax())
    raise RegardError(
        f"A target of {int(target.lengths[row]) - 2} tokens has no CTC path: it needs {int(needed[row])} "
        "frames, one per token and one between equal neighbours, and its source has "
        f"{int(encoded.lengths[row])} after the stem. Choose a stem with a smaller stride, remove "
        "such rows from the data, or leave them out of the loss with zero_infinity=true."
    )


def _needed(target: SequenceTarget) -> Int[Tensor, " batch"]:
    return min_frames(target.tokens[:, 1:-1], target.lengths - 2)
