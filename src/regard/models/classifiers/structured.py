"""Structured self-attentive classifier: a BiLSTM and several attention hops (Lin et al. 2017).

    words → BiLSTM → H;   A = softmax(W₂ tanh(W₁ Hᵀ));   M = A H → classes

Without the recurrent layer (`hidden_dim=0`) H are the word embeddings. A diversity penalty on A keeps the
hops from attending to the same tokens:

    frobenius   weight · ‖A Aᵀ − I‖²_F, a sum over all pairs of hops
    kl          − weight · mean over i ≠ j of KL(aᵢ ‖ aⱼ), capped at 5 nats

The first grows with the number of hops, the second does not, so their weights are not comparable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.protocols import ClassifierOutput, TextAttention
from regard.core.registry import lookup
from regard.layers.cost import SequenceShape, cost_of
from regard.layers.dropout import Dropout
from regard.layers.pooling import Pooled, StructuredPooling, frobenius_penalty, pairwise_kl_penalty
from regard.layers.recurrent import BidirectionalRecurrent
from regard.layers.validation import validate_positive
from regard.models.classifiers.baselines import TextModel
from regard.models.embeddings import WordEmbedding
from regard.models.validation import (
    padding_mask,
    validate_fractions,
    validate_loss_weights,
    validate_sizes,
    validate_sizes_or_zero,
)

# In nats; the divergence itself is unbounded.
MAX_KL = 5.0

Weights = Float[Tensor, "batch hops length"]


def _none(weights: Weights) -> Float[Tensor, " batch"]:
    return weights.new_zeros(weights.shape[0])


def _divergence(weights: Weights) -> Float[Tensor, " batch"]:
    hops = weights.shape[1]
    pairs = max(1, hops * (hops - 1))
    return -torch.clamp(pairwise_kl_penalty(weights) / pairs, max=MAX_KL)


PENALTIES: dict[str, Callable[[Weights], Float[Tensor, " batch"]]] = {
    "none": _none,
    "frobenius": frobenius_penalty,
    "kl": _divergence,
}


class StructuredClassifier(TextModel):
    """Structured self-attention classifier.

    model_dim        of the word embedding
    hidden_dim       of the recurrent layer, per direction; 0: no recurrent layer
    cell             lstm, gru or tanh
    hops             number of attention hops; `attention_dim` is the hidden size of W₁
    penalty          none, frobenius or kl; `penalty_weight` scales it in the loss
    feed_forward_dim of a layer between the hops and the classes; 0: none
    bigram_buckets   see `WordEmbedding`, as `affix_buckets` and `word_dropout`
    dropout          of features; `input_dropout` of word embeddings, by default the same
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
        bigram_buckets: int = 0,
        affix_buckets: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        validate_positive("StructuredClassifier", classes=classes)
        validate_sizes(attention_dim=attention_dim, hops=hops)
        validate_sizes_or_zero(hidden_dim=hidden_dim, feed_forward_dim=feed_forward_dim)
        validate_fractions(dropout=dropout, input_dropout=input_dropout)
        validate_loss_weights(penalty_weight=penalty_weight)
        self.penalty = lookup("penalty", penalty, PENALTIES)
        self.penalty_weight = penalty_weight
        self.words = WordEmbedding(
            vocabulary=vocabulary,
            model_dim=model_dim,
            bigram_buckets=bigram_buckets,
            affix_buckets=affix_buckets,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.recurrent = (
            BidirectionalRecurrent(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)
            if hidden_dim
            else None
        )
        width = model_dim if self.recurrent is None else self.recurrent.output_dim
        self.pooling = StructuredPooling(model_dim=width, hidden_dim=attention_dim, hops=hops)
        self.dropout = Dropout(dropout)
        self.feed_forward = nn.Linear(hops * width, feed_forward_dim) if feed_forward_dim else None
        self.output = nn.Linear(feed_forward_dim or hops * width, classes)

    def classify(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> ClassifierOutput:
        """Class scores of each text; `segments` are ignored."""
        del segments
        pooled = self._pool(tokens, lengths)
        features = self.dropout(pooled.context.flatten(1))
        if self.feed_forward is not None:
            features = self.dropout(self.feed_forward(features).relu())
        penalty = self.penalty_weight * self.penalty(pooled.weights)
        return ClassifierOutput(self.output(features), penalty)

    def text_attention(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextAttention:
        """The attention of every hop: the annotation matrix A of each text."""
        del segments
        return TextAttention(self._pool(tokens, lengths).weights)

    def cost(
        self, *, batch_size: int, length: int, masked_tokens: int | None = None, sentences: int = 1
    ) -> Cost:
        """Cost of `classify` without the penalty."""
        del masked_tokens, sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        total = self.words.cost(rows=shape.positions, texts=batch_size) + self.pooling.cost(shape)
        if self.recurrent is not None:
            total += self.recurrent.cost(shape)
        if self.feed_forward is not None:
            total += cost_of(self.feed_forward, rows=batch_size)
        total += cost_of(self.output, rows=batch_size)
        return replace(total, step_matmul_flops=0, state=0)

    def _pool(self, tokens: Tensor, lengths: Tensor) -> Pooled:
        mask = padding_mask(tokens, lengths)
        x = self.words(tokens, lengths)
        if self.recurrent is not None:
            x = self.dropout(self.recurrent(x, lengths))
        pooled: Pooled = self.pooling(x, mask)
        return pooled
