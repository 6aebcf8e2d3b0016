"""Windows of several widths over the words of a text, and the largest answer of each filter (Kim 2014).

Unlike attention a filter answers to the same few words wherever they stand, and only its best place
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.text_classifier import Classified
from regard.layers.convolution import Convolution
from regard.layers.dropout import Dropout
from regard.layers.layer_cost import SequenceShape, cost_of
from regard.layers.size_rules import require_positive
from regard.models.option_rules import require_shares, require_sizes
from regard.models.padded_rows import padding_mask
from regard.models.recurrent_text import largest_cost, largest_features
from regard.models.text_model import TextModel
from regard.models.word_vectors import WordVectors


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
