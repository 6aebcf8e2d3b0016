"""The mean of a text's word vectors, classified: no order, no attention (Joulin et al. 2017).

What every other classifier of texts has to beat; with a table for pairs of neighbours it knows a little
of the order.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.text_classifier import Classified
from regard.layers.dropout import Dropout
from regard.layers.layer_cost import cost_of
from regard.layers.size_rules import require_positive
from regard.models.option_rules import require_shares
from regard.models.padded_rows import require_lengths
from regard.models.text_model import TextModel
from regard.models.word_vectors import WordVectors


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
