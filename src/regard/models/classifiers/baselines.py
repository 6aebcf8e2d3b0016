"""Text classification baselines without attention, and the base class of all text classifiers.

BagOfWordsClassifier      mean of word embeddings                     (Joulin et al. 2017)
BiLSTMClassifier          BiLSTM with last, max or mean pooling       (Conneau et al. 2017)
ConvolutionalClassifier   convolutions with max pooling over time     (Kim 2014)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.protocols import ClassifierOutput, TextAttention
from regard.core.registry import lookup
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape, cost_of
from regard.layers.dropout import Dropout
from regard.layers.recurrent import BidirectionalRecurrent
from regard.layers.validation import validate_positive
from regard.models.embeddings import WordEmbedding
from regard.models.validation import (
    padding_mask,
    validate_fractions,
    validate_lengths,
    validate_sizes,
)


class TextModel(nn.Module, ABC):
    """Base class of text classifiers: `core.protocols.TextClassifier` as a module."""

    @abstractmethod
    def classify(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> ClassifierOutput:
        """Class scores of each text, and a penalty that training adds to its loss."""

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        return self.classify(tokens, lengths, segments).logits

    def text_attention(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextAttention | None:
        """Attention over the tokens; None for models without attention."""
        del tokens, lengths, segments
        return None


class BagOfWordsClassifier(TextModel):
    """Linear classifier on the mean word embedding: no attention, and no word order beyond bigrams.

    The options are those of `WordEmbedding`. `dropout` is that of the mean; `input_dropout` is that of the
    word embeddings, by default the same.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        bigram_buckets: int = 0,
        affix_buckets: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        validate_positive("BagOfWordsClassifier", classes=classes)
        validate_fractions(dropout=dropout, input_dropout=input_dropout)
        self.words = WordEmbedding(
            vocabulary=vocabulary,
            model_dim=model_dim,
            bigram_buckets=bigram_buckets,
            affix_buckets=affix_buckets,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(model_dim, classes)

    def classify(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> ClassifierOutput:
        """Class scores of each text; `segments` are ignored."""
        del segments
        validate_lengths(tokens, lengths)
        is_token = torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]
        total = (self.words(tokens, lengths) * is_token[:, :, None]).sum(dim=1)
        logits = self.output(self.dropout(total / lengths[:, None]))
        return ClassifierOutput(logits, logits.new_zeros(len(logits)))

    def cost(
        self, *, batch_size: int, length: int, masked_tokens: int | None = None, sentences: int = 1
    ) -> Cost:
        """Cost of `classify`."""
        del masked_tokens, sentences
        rows, width = batch_size * length, self.output.in_features
        mean = Cost(
            elementwise_ops=2 * rows * width,
            transcendental_ops=batch_size * width,
            memory=rows * width,
        )
        total = (
            self.words.cost(rows=rows, texts=batch_size)
            + mean
            + cost_of(self.output, rows=batch_size)
        )
        return replace(total, step_matmul_flops=0, state=0)


Pool = Callable[
    [Float[Tensor, "batch length width"], Int[Tensor, " batch"]], Float[Tensor, "batch width"]
]


def last_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """Final states: the forward half at the last token, the backward half at the first."""
    forward, backward = x.chunk(2, dim=-1)
    return torch.cat([forward[torch.arange(len(x)), lengths - 1], backward[:, 0]], dim=-1)


def max_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """Max pooling over the tokens, without padding."""
    is_token = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
    return x.masked_fill(~is_token[:, :, None], -torch.inf).amax(dim=1)


def mean_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """Mean pooling; padding is zero already."""
    return x.sum(dim=1) / lengths[:, None]


def max_cost(shape: SequenceShape, width: int) -> Cost:
    """Cost of `max_features`: one operation per value for the mask, one for the maximum."""
    return Cost(elementwise_ops=2 * shape.positions * width, memory=shape.positions * width)


class Pooling(NamedTuple):
    """A pooling function and its cost."""

    features: Pool
    cost: Callable[[SequenceShape, int], Cost]


POOLINGS: dict[str, Pooling] = {
    "last": Pooling(last_features, lambda _shape, _width: Cost()),
    "max": Pooling(max_features, max_cost),
    "mean": Pooling(
        mean_features,
        lambda shape, width: Cost(
            elementwise_ops=shape.positions * width, transcendental_ops=shape.batch_size * width
        ),
    ),
}


class BiLSTMClassifier(TextModel):
    """Linear classifier on a pooled bidirectional recurrent layer.

    model_dim      of the word embedding, whose other options are those of `WordEmbedding`
    hidden_dim     of the recurrent layer, per direction
    cell           lstm, gru or tanh
    pooling        over the tokens: last, max or mean
    input_dropout  of the word embedding; default: `dropout`
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        hidden_dim: int = 64,
        cell: str = "lstm",
        pooling: str = "max",
        bigram_buckets: int = 0,
        affix_buckets: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        validate_positive("BiLSTMClassifier", classes=classes)
        validate_sizes(hidden_dim=hidden_dim)
        validate_fractions(dropout=dropout, input_dropout=input_dropout)
        self.pooling = lookup("pooling", pooling, POOLINGS)
        self.words = WordEmbedding(
            vocabulary=vocabulary,
            model_dim=model_dim,
            bigram_buckets=bigram_buckets,
            affix_buckets=affix_buckets,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.recurrent = BidirectionalRecurrent(
            model_dim=model_dim, hidden_dim=hidden_dim, cell=cell
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(self.recurrent.output_dim, classes)

    def classify(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> ClassifierOutput:
        """Class scores of each text; `segments` are ignored."""
        del segments
        validate_lengths(tokens, lengths)
        hidden = self.recurrent(self.words(tokens, lengths), lengths)
        features = self.pooling.features(hidden, lengths)
        logits = self.output(self.dropout(features))
        return ClassifierOutput(logits, logits.new_zeros(len(logits)))

    def cost(
        self, *, batch_size: int, length: int, masked_tokens: int | None = None, sentences: int = 1
    ) -> Cost:
        """Cost of `classify`."""
        del masked_tokens, sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        total = self.words.cost(rows=shape.positions, texts=batch_size) + self.recurrent.cost(shape)
        total += self.pooling.cost(shape, self.output.in_features)
        total += cost_of(self.output, rows=batch_size)
        return replace(total, step_matmul_flops=0, state=0)


class ConvolutionalClassifier(TextModel):
    """Linear classifier on max-pooled convolutions.

    model_dim      of the word embedding, whose other options are those of `WordEmbedding`
    widths         kernel sizes, each odd and 3 or more
    filters        output channels per width
    input_dropout  of the word embedding; default: `dropout`
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        # object: any value reaches the check below, whose error names the option.
        widths: object = (3, 5, 7),
        filters: int = 64,
        bigram_buckets: int = 0,
        affix_buckets: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        validate_positive("ConvolutionalClassifier", classes=classes)
        validate_sizes(filters=filters)
        validate_fractions(dropout=dropout, input_dropout=input_dropout)
        self.words = WordEmbedding(
            vocabulary=vocabulary,
            model_dim=model_dim,
            bigram_buckets=bigram_buckets,
            affix_buckets=affix_buckets,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.windows = nn.ModuleList(
            Convolution(model_dim=model_dim, output_dim=filters, width=width)
            for width in _odd_widths(widths)
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(filters * len(self.windows), classes)

    def classify(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> ClassifierOutput:
        """Class scores of each text; `segments` are ignored."""
        del segments
        mask = padding_mask(tokens, lengths)
        words = self.words(tokens, lengths)
        pooled = [max_features(window(words, mask), lengths) for window in self.windows]
        logits = self.output(self.dropout(torch.cat(pooled, dim=-1).relu()))
        return ClassifierOutput(logits, logits.new_zeros(len(logits)))

    def cost(
        self, *, batch_size: int, length: int, masked_tokens: int | None = None, sentences: int = 1
    ) -> Cost:
        """Cost of `classify`."""
        del masked_tokens, sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        total = self.words.cost(rows=shape.positions, texts=batch_size) + cost_of(
            self.output, rows=batch_size
        )
        for window in self.windows:
            if isinstance(window, Convolution):
                total += window.cost(shape) + max_cost(shape, window.linear.out_channels)
        return replace(total, step_matmul_flops=0, state=0)


def _odd_widths(widths: object) -> list[int]:
    sizes = widths if isinstance(widths, Sequence) and not isinstance(widths, str) else ()
    if sizes and all(type(size) is int and size >= 3 and size % 2 for size in sizes):
        return list(sizes)
    raise RegardError(
        f"model.widths={widths!r}: it must be a non-empty list of odd integers, each 3 or more, such as "
        "[3,5,7]."
    )
