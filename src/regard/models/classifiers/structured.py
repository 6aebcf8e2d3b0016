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
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.batches import Input, InputSpec
from regard.core.options import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Probability,
    validated,
)
from regard.core.protocols import ClassifierOutput, TextAttention
from regard.core.traits import Size, Traits
from regard.layers.dropout import Dropout
from regard.layers.pooling import Pooled, StructuredPooling, frobenius_penalty, pairwise_kl_penalty
from regard.layers.recurrent import BidirectionalRecurrent
from regard.models.classifier import ANY_INPUT, ONE_OUTPUT, Classifier, alternatives_of
from regard.models.stems import StemOptions, build_word_stem, grid_of

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


class StructuredClassifier(Classifier):
    """Structured self-attention classifier.

    model_dim        width of the word embedding, whose other options are those of `WordEmbedding`
    hidden_dim       width of the recurrent layer, per direction; 0: no recurrent layer
    hops             number of attention hops
    attention_dim    hidden size of the hops: of W₁
    penalty          penalty on hops that attend to the same words
    penalty_weight   weight of the penalty in the loss
    feed_forward_dim width of a layer between the hops and the classes; 0: none
    stem             options of the stem of real-valued input, see `models.stems`
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=ONE_OUTPUT,
        sizes={"hidden_dim": Size(), "model_dim": Size()},
        alternatives=alternatives_of("structured"),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        outputs: PositiveInt,
        model_dim: PositiveInt = 128,
        hidden_dim: NonNegativeInt = 64,
        cell: Literal["lstm", "gru", "tanh"] = "lstm",
        hops: PositiveInt = 8,
        attention_dim: PositiveInt = 64,
        penalty: Literal["none", "frobenius", "kl"] = "none",
        penalty_weight: NonNegativeFloat = 0.1,
        feed_forward_dim: NonNegativeInt = 0,
        bigram_buckets: NonNegativeInt = 0,
        affix_buckets: NonNegativeInt = 0,
        dropout: Probability = 0.5,
        input_dropout: Probability | None = None,
        word_dropout: Probability = 0.1,
        stem: StemOptions = None,
    ) -> None:
        super().__init__()
        self.penalty = PENALTIES[penalty]
        self.penalty_weight = penalty_weight
        self.stem = build_word_stem(
            source,
            model_dim=model_dim,
            bigram_buckets=bigram_buckets,
            affix_buckets=affix_buckets,
            dropout=dropout,
            input_dropout=input_dropout,
            word_dropout=word_dropout,
            stem=stem,
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
        self.head = nn.Linear(feed_forward_dim or hops * width, outputs)

    def classify(self, input: Input) -> ClassifierOutput:
        """The logits of each row, and the diversity penalty of its hops."""
        pooled = self._pool(input)
        penalty = self.penalty_weight * self.penalty(pooled.weights)
        return ClassifierOutput(self.head(self._combine(pooled)), penalty)

    def features(self, input: Input) -> Float[Tensor, "batch width"]:
        """The context vectors of all hops, with a layer on top if there is one."""
        return self._combine(self._pool(input))

    def text_attention(self, input: Input) -> TextAttention:
        """The attention of every hop: the annotation matrix A of each row."""
        return TextAttention(self._pool(input).weights, grid=grid_of(self.stem))

    def _pool(self, input: Input) -> Pooled:
        features = self.stem(input)
        x = features.frames
        if self.recurrent is not None:
            x = self.dropout(self.recurrent(x, features.lengths))
        pooled: Pooled = self.pooling(x, features.mask)
        return pooled

    def _combine(self, pooled: Pooled) -> Tensor:
        features: Tensor = self.dropout(pooled.context.flatten(1))
        if self.feed_forward is not None:
            features = self.dropout(self.feed_forward(features).relu())
        return features
