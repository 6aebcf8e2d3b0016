"""Classification baselines without attention.

BagOfWordsClassifier      mean of word embeddings                     (Joulin et al. 2017)
BiLSTMClassifier          BiLSTM with last, max or mean pooling       (Conneau et al. 2017)
ConvolutionalClassifier   convolutions with max pooling over time     (Kim 2014)

`stem`, in all of them, are options of the stem of real-valued input; see `models.stems`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import AfterValidator
from torch import Tensor, nn

from regard.core.batches import Input, InputSpec
from regard.core.options import NonNegativeInt, PositiveInt, Probability, validated
from regard.core.traits import Size, Traits
from regard.layers.convolution import Convolution
from regard.layers.dropout import Dropout
from regard.layers.recurrent import BidirectionalRecurrent
from regard.models.classifier import (
    ANY_INPUT,
    ONE_OUTPUT,
    Classifier,
    alternatives_of,
    last_features,
    max_features,
    mean_features,
)
from regard.models.stems import StemOptions, build_word_stem


class BagOfWordsClassifier(Classifier):
    """Linear classifier on the mean word embedding: no attention, and no word order beyond bigrams.

    The options are those of `WordEmbedding`. `dropout` is that of the mean; `input_dropout` is that of the
    word embeddings, by default the same.
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=ONE_OUTPUT,
        sizes={"model_dim": Size()},
        alternatives=alternatives_of("bag_of_words"),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        outputs: PositiveInt,
        model_dim: PositiveInt = 128,
        bigram_buckets: NonNegativeInt = 0,
        affix_buckets: NonNegativeInt = 0,
        dropout: Probability = 0.5,
        input_dropout: Probability | None = None,
        word_dropout: Probability = 0.1,
        stem: StemOptions = None,
    ) -> None:
        super().__init__()
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
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(model_dim, outputs)

    def features(self, input: Input) -> Float[Tensor, "batch model_dim"]:
        """The mean of the word embeddings."""
        x = self.stem(input)
        mean: Tensor = self.dropout(mean_features(x.frames, x.lengths))
        return mean


POOLINGS = {"last": last_features, "max": max_features, "mean": mean_features}


class BiLSTMClassifier(Classifier):
    """Linear classifier on a pooled bidirectional recurrent layer.

    model_dim      width of the word embedding, whose other options are those of `WordEmbedding`
    hidden_dim     width of the recurrent layer, per direction
    pooling        pooling over the tokens: last, max or mean
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=ONE_OUTPUT,
        sizes={"hidden_dim": Size(), "model_dim": Size()},
        alternatives=alternatives_of("bilstm"),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        outputs: PositiveInt,
        model_dim: PositiveInt = 128,
        hidden_dim: PositiveInt = 64,
        cell: Literal["lstm", "gru", "tanh"] = "lstm",
        pooling: Literal["last", "max", "mean"] = "max",
        bigram_buckets: NonNegativeInt = 0,
        affix_buckets: NonNegativeInt = 0,
        dropout: Probability = 0.5,
        input_dropout: Probability | None = None,
        word_dropout: Probability = 0.1,
        stem: StemOptions = None,
    ) -> None:
        super().__init__()
        self.pooling = POOLINGS[pooling]
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
        self.recurrent = BidirectionalRecurrent(
            model_dim=model_dim, hidden_dim=hidden_dim, cell=cell
        )
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(self.recurrent.output_dim, outputs)

    def features(self, input: Input) -> Float[Tensor, "batch width"]:
        """The pooled outputs of the recurrent layer."""
        x = self.stem(input)
        pooled: Tensor = self.pooling(self.recurrent(x.frames, x.lengths), x.lengths)
        features: Tensor = self.dropout(pooled)
        return features


def _odd_widths(widths: Sequence[int]) -> Sequence[int]:
    if not widths or any(width < 3 or width % 2 == 0 for width in widths):
        raise ValueError(
            "it must be a non-empty list of odd integers, each 3 or more, such as [3,5,7]."
        )
    return widths


class ConvolutionalClassifier(Classifier):
    """Linear classifier on max-pooled convolutions.

    model_dim      width of the word embedding, whose other options are those of `WordEmbedding`
    widths         kernel sizes, each odd and 3 or more
    filters        output channels per width
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=ONE_OUTPUT,
        sizes={"filters": Size(), "model_dim": Size()},
        alternatives=alternatives_of("convolutional"),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        outputs: PositiveInt,
        model_dim: PositiveInt = 128,
        widths: Annotated[list[int] | tuple[int, ...], AfterValidator(_odd_widths)] = (3, 5, 7),
        filters: PositiveInt = 64,
        bigram_buckets: NonNegativeInt = 0,
        affix_buckets: NonNegativeInt = 0,
        dropout: Probability = 0.5,
        input_dropout: Probability | None = None,
        word_dropout: Probability = 0.1,
        stem: StemOptions = None,
    ) -> None:
        super().__init__()
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
        self.windows = nn.ModuleList(
            Convolution(model_dim=model_dim, output_dim=filters, width=width) for width in widths
        )
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(filters * len(widths), outputs)

    def features(self, input: Input) -> Float[Tensor, "batch width"]:
        """The maxima of all filters over time."""
        x = self.stem(input)
        mask = x.mask
        pooled = [max_features(window(x.frames, mask), x.lengths) for window in self.windows]
        features: Tensor = self.dropout(torch.cat(pooled, dim=-1).relu())
        return features
