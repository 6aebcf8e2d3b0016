"""A text read both ways by a recurrent layer, and one vector taken from it without attention.

    last    the end of either direction                      (Sutskever et al. 2014, both ways)
    max     the largest value of every feature over places   (Conneau et al. 2017)
    mean    the mean over places

The baseline of structured self-attention, which weighs the places instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.names import look_up
from regard.core.text_classifier import Classified
from regard.layers.both_ways import BothWays
from regard.layers.dropout import Dropout
from regard.layers.layer_cost import SequenceShape, cost_of
from regard.layers.size_rules import require_positive
from regard.models.option_rules import require_shares, require_sizes
from regard.models.padded_rows import require_lengths
from regard.models.text_model import TextModel
from regard.models.word_vectors import WordVectors

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
