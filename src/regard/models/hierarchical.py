"""Hierarchical attention network: words make sentences, sentences make a document (Yang et al. 2016).

    words of a sentence → both ways → learned-context pooling → sentence vector
    sentences of a document → both ways → learned-context pooling → document vector → classes

A sentence is read in isolation, unless `context` lets the pooling of its words know the others (Remy et
al. 2019): the mean of the sentence vectors before it, or of those before and, in a second reading, of
those after it; gated or added (`layers/sentence_pooling.py`). Words are read without padding: sentences
of like length together, whatever document they are from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import Padding
from regard.core.text_classifier import Classified, TextReading
from regard.layers.both_ways import BothWays
from regard.layers.context_pooling import ContextPooling
from regard.layers.dropout import Dropout
from regard.layers.layer_cost import SequenceShape, cost_of
from regard.layers.pooling import Pooled
from regard.layers.sentence_pooling import PooledSentences, SentencePooling
from regard.layers.size_rules import require_positive
from regard.models.option_rules import require_shares, require_sizes
from regard.models.padded_rows import require_lengths
from regard.models.sentence_layout import SentenceLayout
from regard.models.sentences_in_turn import pooled_in_turn
from regard.models.text_model import TextModel
from regard.models.word_vectors import WordVectors

# context → in which directions the sentences of a document are gone through
DIRECTIONS: dict[str, tuple[Literal["onward", "back"], ...]] = {
    "none": (),
    "before": ("onward",),
    "both": ("onward", "back"),
}

# Of every word: which sentence it is in, and where it stands there.
LAYOUT_ARITHMETIC = 14


class HierarchicalClassifier(TextModel):
    """From the sentences of a document to scores of its classes.

    model_dim        features of a word
    hidden_dim       of the readers of words and of sentences, in each direction; cell: lstm, gru or tanh
    attention_dim    width of the pooling's hidden layer; as wide as what it reads unless given
    context          what a sentence knows of the others: none, before or both
    gated            whether a gate weighs it against the word, instead of adding it
    pair_table       rows of a table of vectors for pairs of neighbouring words; 0 for none
    spelling_table   the same for how words begin and end
    dropout          of features of sentences and the document; `input_dropout` of those of words, as much
                     unless given; `word_dropout` of whole words
    """

    segments_are = "sentences"

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int,
        model_dim: int = 128,
        hidden_dim: int = 64,
        cell: str = "lstm",
        attention_dim: int | None = None,
        context: str = "none",
        gated: bool = False,
        pair_table: int = 0,
        spelling_table: int = 0,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        word_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        require_positive("HierarchicalClassifier", classes=classes)
        require_sizes(hidden_dim=hidden_dim, attention_dim=attention_dim)
        require_shares(dropout=dropout, input_dropout=input_dropout)
        if context not in DIRECTIONS:
            raise RegardError(
                f"model.context={context!r}: it must be one of {', '.join(DIRECTIONS)}."
            )
        if gated and context == "none":
            raise RegardError(
                "model.gated=true without a context: a gate weighs a word against what is known of other "
                "sentences. Set model.context=before or model.context=both, or leave gated away."
            )
        self.words = WordVectors(
            vocabulary=vocabulary,
            model_dim=model_dim,
            pair_table=pair_table,
            spelling_table=spelling_table,
            dropout=dropout if input_dropout is None else input_dropout,
            word_dropout=word_dropout,
        )
        self.word_reader = BothWays(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)
        width = self.word_reader.output_dim
        self.directions = DIRECTIONS[context]
        self.word_pooling = nn.ModuleList(
            SentencePooling(
                model_dim=width,
                hidden_dim=attention_dim,
                context_dim=width if self.directions else None,
                gated=gated,
            )
            for _ in range(max(1, len(self.directions)))
        )
        self.sentence_reader = BothWays(
            model_dim=width * len(self.word_pooling), hidden_dim=hidden_dim, cell=cell
        )
        self.sentence_pooling = ContextPooling(
            model_dim=self.sentence_reader.output_dim, hidden_dim=attention_dim
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(self.sentence_reader.output_dim, classes)

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each document; without segments it is one sentence."""
        layout, sentences = self._sentences(tokens, lengths, segments)
        document = self._documents(sentences.context, layout)
        logits = self.output(self.dropout(document.context[:, 0]))
        return Classified(logits, logits.new_zeros(len(logits)))

    def reading(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextReading:
        """The weights of words within their sentences, and of sentences within their documents."""
        layout, sentences = self._sentences(tokens, lengths, segments)
        document = self._documents(sentences.context, layout)
        words = sentences.weights.new_zeros(layout.real.shape)
        words[layout.real] = sentences.weights
        by_segment = words.new_zeros(len(tokens), int(layout.segment.max()) + 1)
        by_segment[layout.row, layout.segment] = document.weights[:, 0][layout.row, layout.number]
        return TextReading(words[:, None], by_segment)

    def sentence_vectors(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "sentences width"]:
        """One vector a sentence, as the words' pooling gives it, documents one after the other."""
        return self._sentences(tokens, lengths, segments)[1].context

    def cost(
        self, *, batch_size: int, length: int, places: int | None = None, sentences: int = 1
    ) -> Cost:
        """What `classified` takes for documents of `sentences` sentences each, of equal length."""
        del places
        words = SequenceShape(batch_size=batch_size * sentences, length=-(-length // sentences))
        document = SequenceShape(batch_size=batch_size, length=sentences)
        total = self.words.cost(rows=words.rows, texts=batch_size, sentences=True)
        total += self.word_reader.cost(words)
        for pooling in self.word_pooling:
            if isinstance(pooling, SentencePooling):
                total += pooling.cost(words)
                # The first sentence is told nothing, so nothing of that has a gradient.
                told = self.word_reader.output_dim * pooling.hidden.out_features
                layers = sum(
                    layer is not None for layer in (pooling.elsewhere, pooling.gate_elsewhere)
                )
                total += Cost(backward_products=-2 * batch_size * told * layers)
        total += Cost(arithmetic=LAYOUT_ARITHMETIC * words.rows)
        total += self.sentence_reader.cost(document) + self.sentence_pooling.cost(document)
        total += cost_of(self.output, rows=batch_size)
        return replace(total, step_products=0, state=0)

    def _sentences(
        self, tokens: Tensor, lengths: Tensor, segments: Tensor | None
    ) -> tuple[SentenceLayout, PooledSentences]:
        """Where the sentences stand, their vectors and the weights of all words."""
        require_lengths(tokens, lengths)
        segments = torch.zeros_like(tokens) if segments is None else segments
        layout = SentenceLayout.of(lengths, segments)
        vectors = self.words(tokens, lengths, segments)[layout.real]
        return layout, self._pooled(self.dropout(self._read_words(vectors, layout)), layout)

    def _pooled(self, words: Tensor, layout: SentenceLayout) -> PooledSentences:
        """Sentences of the words that were read; of two directions, the mean weights."""
        if not self.directions:
            pooling = self.word_pooling[0]
            pooled: PooledSentences = pooling(words, layout.sentence, count=len(layout.lengths))
            return pooled
        ways = [
            pooled_in_turn(pooling, words, layout, direction=direction)  # type: ignore[arg-type]
            for pooling, direction in zip(self.word_pooling, self.directions, strict=True)
        ]
        return PooledSentences(
            context=torch.cat([way.context for way in ways], dim=-1),
            weights=torch.stack([way.weights for way in ways]).mean(dim=0),
        )

    def _read_words(self, vectors: Tensor, layout: SentenceLayout) -> Tensor:
        """Every word in the light of its sentence, in the order of the words."""
        read, places = [], []
        for group in layout.groups():
            index, there = layout.padded(group)
            output = self.word_reader(vectors[index], layout.lengths[group])
            read.append(output[there])
            places.append(index[there])
        return torch.cat(read)[torch.cat(places).argsort()]

    def _documents(self, sentences: Tensor, layout: SentenceLayout) -> Pooled:
        counts = layout.per_document()
        padded = sentences.new_zeros(len(counts), int(counts.max()), sentences.shape[1])
        padded[layout.row, layout.number] = self.dropout(sentences)
        pooled: Pooled = self.sentence_pooling(
            self.sentence_reader(padded, counts), Padding(counts)
        )
        return pooled
