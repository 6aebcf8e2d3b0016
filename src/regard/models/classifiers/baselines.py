"""What classifiers of texts share as modules: called, they give scores; most have nothing to look at."""

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
from regard.core.protocols import Classified, TextReading
from regard.core.registry import look_up
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape, cost_of
from regard.layers.dropout import Dropout
from regard.layers.recurrent import BothWays
from regard.layers.validation import require_positive
from regard.models.embeddings import WordVectors
from regard.models.validation import padding_mask, require_lengths, require_shares, require_sizes


class TextModel(nn.Module, ABC):
    """A `TextClassifier` as a module: it says how it classifies, and what it looked at if it can."""

    @abstractmethod
    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each text, and what training adds to its loss."""

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        return self.classified(tokens, lengths, segments).logits

    def reading(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextReading | None:
        """Nothing, unless a model has attention."""
        del tokens, lengths, segments
        return None


# The mean of a text's word vectors, classified: no order, no attention (Joulin et al. 2017).
#
# What every other classifier of texts has to beat; with a table for pairs of neighbours it knows a
# little of the order.


class MeanWords(TextModel):
    """From the words of a text to scores of its classes; the options are those of `WordVectors`.

    `input_dropout` is that of word vectors, `dropout` that of their mean and, unless given, of both.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        pair_table: int = 0,
        spelling_table: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        require_positive("MeanWords", classes=classes)
        require_shares(dropout=dropout, input_dropout=input_dropout)
        self.words = WordVectors(
            vocabulary=vocabulary,
            model_dim=model_dim,
            pair_table=pair_table,
            spelling_table=spelling_table,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(model_dim, classes)

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each text; sentences are of no account."""
        del segments
        require_lengths(tokens, lengths)
        real = torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]
        total = (self.words(tokens, lengths) * real[:, :, None]).sum(dim=1)
        logits = self.output(self.dropout(total / lengths[:, None]))
        return Classified(logits, logits.new_zeros(len(logits)))

    def cost(
        self, *, batch_size: int, length: int, places: int | None = None, sentences: int = 1
    ) -> Cost:
        """What `classified` takes."""
        del places, sentences
        rows, width = batch_size * length, self.output.in_features
        mean = Cost(arithmetic=2 * rows * width, functions=batch_size * width, memory=rows * width)
        total = (
            self.words.cost(rows=rows, texts=batch_size)
            + mean
            + cost_of(self.output, rows=batch_size)
        )
        return replace(total, step_products=0, state=0)


# A text read both ways by a recurrent layer, and one vector taken from it without attention.
#
# last    the end of either direction                      (Sutskever et al. 2014, both ways) max
# the largest value of every feature over places   (Conneau et al. 2017) mean    the mean over
# places
#
# The baseline of structured self-attention, which weighs the places instead.


Take = Callable[
    [Float[Tensor, "batch length width"], Int[Tensor, " batch"]], Float[Tensor, "batch width"]
]


def last_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """The onward half at the last real place, the backward half at the first."""
    onward, back = x.chunk(2, dim=-1)
    return torch.cat([onward[torch.arange(len(x)), lengths - 1], back[:, 0]], dim=-1)


def largest_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """The largest value over real places of every feature."""
    real = torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None]
    return x.masked_fill(~real[:, :, None], -torch.inf).amax(dim=1)


def mean_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """The mean over real places; others are zeros already."""
    return x.sum(dim=1) / lengths[:, None]


def largest_cost(shape: SequenceShape, width: int) -> Cost:
    """What `largest_features` takes: each number is looked at once to hide padding, once to compare."""
    return Cost(arithmetic=2 * shape.rows * width, memory=shape.rows * width)


class Taken(NamedTuple):
    """How one vector is taken, and what that takes."""

    features: Take
    cost: Callable[[SequenceShape, int], Cost]


TAKEN: dict[str, Taken] = {
    "last": Taken(last_features, lambda _shape, _width: Cost()),
    "max": Taken(largest_features, largest_cost),
    "mean": Taken(
        mean_features,
        lambda shape, width: Cost(
            arithmetic=shape.rows * width, functions=shape.batch_size * width
        ),
    ),
}


class RecurrentText(TextModel):
    """From the words of a text to scores of its classes.

    model_dim      features of a word; the other options of words are those of `WordVectors`, whose
                   dropout is `input_dropout`, or `dropout` unless it is given
    hidden_dim     of the recurrent layer in each direction; cell: lstm, gru or tanh
    take           what is classified: last, max or mean
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        hidden_dim: int = 64,
        cell: str = "lstm",
        take: str = "max",
        pair_table: int = 0,
        spelling_table: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        require_positive("RecurrentText", classes=classes)
        require_sizes(hidden_dim=hidden_dim)
        require_shares(dropout=dropout, input_dropout=input_dropout)
        self.take = look_up("take", take, TAKEN)
        self.words = WordVectors(
            vocabulary=vocabulary,
            model_dim=model_dim,
            pair_table=pair_table,
            spelling_table=spelling_table,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.recurrent = BothWays(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(self.recurrent.output_dim, classes)

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each text; sentences are of no account."""
        del segments
        require_lengths(tokens, lengths)
        read = self.recurrent(self.words(tokens, lengths), lengths)
        features = self.take.features(read, lengths)
        logits = self.output(self.dropout(features))
        return Classified(logits, logits.new_zeros(len(logits)))

    def cost(
        self, *, batch_size: int, length: int, places: int | None = None, sentences: int = 1
    ) -> Cost:
        """What `classified` takes."""
        del places, sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        total = self.words.cost(rows=shape.rows, texts=batch_size) + self.recurrent.cost(shape)
        total += self.take.cost(shape, self.output.in_features)
        total += cost_of(self.output, rows=batch_size)
        return replace(total, step_products=0, state=0)


# Windows of several widths over the words of a text, and the largest answer of each filter (Kim
# 2014).
#
# Unlike attention a filter answers to the same few words wherever they stand, and only its best
# place counts.


class ConvolutionalText(TextModel):
    """From the words of a text to scores of its classes.

    model_dim      features of a word; the other options of words are those of `WordVectors`, whose
                   dropout is `input_dropout`, or `dropout` unless it is given
    widths         of the windows, each odd and 3 or more; `filters` of every width
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        # Any object, so that the error about one that is no list of widths can say what it must be.
        widths: object = (3, 5, 7),
        filters: int = 64,
        pair_table: int = 0,
        spelling_table: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        require_positive("ConvolutionalText", classes=classes)
        require_sizes(filters=filters)
        require_shares(dropout=dropout, input_dropout=input_dropout)
        self.words = WordVectors(
            vocabulary=vocabulary,
            model_dim=model_dim,
            pair_table=pair_table,
            spelling_table=spelling_table,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.windows = nn.ModuleList(
            Convolution(model_dim=model_dim, output_dim=filters, width=width)
            for width in _odd_widths(widths)
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(filters * len(self.windows), classes)

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each text; sentences are of no account."""
        del segments
        mask = padding_mask(tokens, lengths)
        words = self.words(tokens, lengths)
        best = [largest_features(window(words, mask), lengths) for window in self.windows]
        logits = self.output(self.dropout(torch.cat(best, dim=-1).relu()))
        return Classified(logits, logits.new_zeros(len(logits)))

    def cost(
        self, *, batch_size: int, length: int, places: int | None = None, sentences: int = 1
    ) -> Cost:
        """What `classified` takes."""
        del places, sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        total = self.words.cost(rows=shape.rows, texts=batch_size) + cost_of(
            self.output, rows=batch_size
        )
        for window in self.windows:
            if isinstance(window, Convolution):
                total += window.cost(shape) + largest_cost(shape, window.linear.out_channels)
        return replace(total, step_products=0, state=0)


def _odd_widths(widths: object) -> list[int]:
    """The widths as they were given, if they are some and each can be centred on a word."""
    given = widths if isinstance(widths, Sequence) and not isinstance(widths, str) else ()
    if given and all(type(width) is int and width >= 3 and width % 2 for width in given):
        return list(given)
    raise RegardError(
        f"model.widths={widths!r}: it must be a list of one or more odd whole numbers, each 3 or more, "
        "such as [3,5,7]."
    )
