"""Padded batches of token ids: source–target pairs, and texts with masked-token and label targets.

Padding comes last in every row; lengths count everything but padding.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor

# Special tokens, the same ids in every vocabulary.
PAD = 0
START = 1
END = 2
UNKNOWN = 3

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")


class PairBatch(NamedTuple):
    """Source and target sequences, for encoder–decoder models and language models.

    source   c a t END            target   START K AE T END
    source   o x END PAD          target   START AA K S END
    """

    source: Int[Tensor, "batch source_length"]
    source_lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target_length"]
    target_lengths: Int[Tensor, " batch"]

    @property
    def num_predictions(self) -> int:
        """The number of predicted tokens: all target tokens but START."""
        return int(self.target_lengths.sum()) - self.target_lengths.numel()

    @property
    def num_tokens(self) -> int:
        """Source tokens and predicted tokens, without padding."""
        return int(self.source_lengths.sum()) + self.num_predictions

    @property
    def decoder_input(self) -> Int[Tensor, "batch predictions"]:
        """The target without its last position (teacher forcing)."""
        return self.target[:, :-1]

    @property
    def decoder_target(self) -> Int[Tensor, "batch predictions"]:
        """The next token at each position of `decoder_input`; PAD where there is none."""
        return self.target[:, 1:]

    @property
    def target_mask(self) -> Bool[Tensor, "batch predictions"]:
        """Which positions of `decoder_target` are not padding."""
        return self.decoder_target != PAD


class TextBatch(NamedTuple):
    """Texts for encoders and classifiers: one text per row, or two marked by their segments.

    tokens          START a b END c d END          START a b END PAD PAD PAD
    segments          0   0 0  0  1 1  1             0   0 0  0   0   0   0
    token_targets     ·   · b  ·  · d  ·             ·   a ·  ·   ·   ·   ·

    `token_targets` are the masked tokens to predict and `labels` the class of a row; -1 where there is
    none.
    """

    tokens: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch length"]
    token_targets: Int[Tensor, "batch length"]
    labels: Int[Tensor, " batch"]

    @property
    def target_mask(self) -> Bool[Tensor, "batch length"]:
        """Which positions have a token target."""
        return self.token_targets >= 0

    @property
    def labelled(self) -> Bool[Tensor, " batch"]:
        """Which rows have a label."""
        return self.labels >= 0

    @property
    def num_predictions(self) -> int:
        """The number of token targets and labels."""
        return int(self.target_mask.sum()) + int(self.labelled.sum())

    @property
    def num_tokens(self) -> int:
        """Tokens, without padding."""
        return int(self.lengths.sum())
