"""Structured self-attentive classifier: a text is read both ways, then by several hops (Lin et al. 2017).

    words → BiLSTM → H;   A = softmax(W₂ tanh(W₁ Hᵀ));   M = A H → classes

Every hop is a weighted sum of all places; what training adds so that hops look at different places is in
`hop_penalties.py`. Without the recurrent layer (`hidden_dim=0`) H are the word vectors themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.protocols import Classified, TextReading
from regard.core.registry import look_up
from regard.layers.cost import SequenceShape, cost_of
from regard.layers.dropout import Dropout
from regard.layers.pooling import Pooled, StructuredPooling, frobenius_penalty, pairwise_kl_penalty
from regard.layers.recurrent import BothWays
from regard.layers.validation import require_positive
from regard.models.classifiers.baselines import TextModel
from regard.models.embeddings import WordVectors
from regard.models.validation import (
    padding_mask,
    require_shares,
    require_sizes,
    require_sizes_or_none,
    require_weights,
)

# What a classifier with several hops adds to its loss so that they look at different places.
#
# frobenius   weight · ‖A Aᵀ − I‖²_F, a sum over all pairs of hops, each with itself too kl
# − weight · mean over i ≠ j of KL(aᵢ ‖ aⱼ), at most 5, since nothing else ends it
#
# The first grows with the number of hops and the second does not: a weight of the one says nothing
# about a weight of the other. The sums themselves are in `layers/penalties.py`.


# Hops that differ by this much on average, in nats, are told apart enough.
ENOUGH = 5.0

Weights = Float[Tensor, "batch hops length"]


def _none(weights: Weights) -> Float[Tensor, " batch"]:
    return weights.new_zeros(weights.shape[0])


def _divergence(weights: Weights) -> Float[Tensor, " batch"]:
    hops = weights.shape[1]
    pairs = max(1, hops * (hops - 1))
    return -torch.clamp(pairwise_kl_penalty(weights) / pairs, max=ENOUGH)


PENALTIES: dict[str, Callable[[Weights], Float[Tensor, " batch"]]] = {
    "none": _none,
    "frobenius": frobenius_penalty,
    "kl": _divergence,
}


class StructuredClassifier(TextModel):
    """From the words of a text to scores of its classes.

    model_dim        features of a word
    hidden_dim       of the recurrent layer in each direction; 0 leaves it out
    cell             lstm, gru or tanh
    hops             how many places a text is looked at; `attention_dim` is the width of W₁
    penalty          none, frobenius or kl, times `penalty_weight` in the loss of each text
    feed_forward_dim of a layer between the hops and the classes; 0 for none
    pair_table       rows of a table of vectors for pairs of neighbouring words; 0 for none
    spelling_table   the same for how words begin and end
    dropout          of features of what is read and classified; `input_dropout` of those of words, as much
                     unless given; `word_dropout` of whole words
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        hidden_dim: int = 64,
        cell: str = "lstm",
        hops: int = 8,
        attention_dim: int = 64,
        penalty: str = "none",
        penalty_weight: float = 0.1,
        feed_forward_dim: int = 0,
        pair_table: int = 0,
        spelling_table: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        require_positive("StructuredClassifier", classes=classes)
        require_sizes(attention_dim=attention_dim, hops=hops)
        require_sizes_or_none(hidden_dim=hidden_dim, feed_forward_dim=feed_forward_dim)
        require_shares(dropout=dropout, input_dropout=input_dropout)
        # A negative one would make the hops alike.
        require_weights(penalty_weight=penalty_weight)
        self.penalty = look_up("penalty", penalty, PENALTIES)
        self.penalty_weight = penalty_weight
        self.words = WordVectors(
            vocabulary=vocabulary,
            model_dim=model_dim,
            pair_table=pair_table,
            spelling_table=spelling_table,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.recurrent = (
            BothWays(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell) if hidden_dim else None
        )
        width = model_dim if self.recurrent is None else self.recurrent.output_dim
        self.pooling = StructuredPooling(model_dim=width, hidden_dim=attention_dim, hops=hops)
        self.dropout = Dropout(dropout)
        self.feed_forward = nn.Linear(hops * width, feed_forward_dim) if feed_forward_dim else None
        self.output = nn.Linear(feed_forward_dim or hops * width, classes)

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each text; sentences are of no account."""
        del segments
        pooled = self._pooled(tokens, lengths)
        features = self.dropout(pooled.context.flatten(1))
        if self.feed_forward is not None:
            features = self.dropout(self.feed_forward(features).relu())
        penalty = self.penalty_weight * self.penalty(pooled.weights)
        return Classified(self.output(features), penalty)

    def reading(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextReading:
        """What every hop looked at: the annotation matrix of each text."""
        del segments
        return TextReading(self._pooled(tokens, lengths).weights)

    def cost(
        self, *, batch_size: int, length: int, places: int | None = None, sentences: int = 1
    ) -> Cost:
        """What `classified` takes, the penalty not counted."""
        del places, sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        total = self.words.cost(rows=shape.rows, texts=batch_size) + self.pooling.cost(shape)
        if self.recurrent is not None:
            total += self.recurrent.cost(shape)
        if self.feed_forward is not None:
            total += cost_of(self.feed_forward, rows=batch_size)
        total += cost_of(self.output, rows=batch_size)
        return replace(total, step_products=0, state=0)

    def _pooled(self, tokens: Tensor, lengths: Tensor) -> Pooled:
        mask = padding_mask(tokens, lengths)
        x = self.words(tokens, lengths)
        if self.recurrent is not None:
            x = self.dropout(self.recurrent(x, lengths))
        pooled: Pooled = self.pooling(x, mask)
        return pooled
