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
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import Padding
from regard.core.protocols import Classified, TextReading
from regard.layers.cost import SequenceShape, cost_of
from regard.layers.dropout import Dropout
from regard.layers.pooling import ContextPooling, Pooled
from regard.layers.recurrent import BothWays
from regard.layers.sentence_pooling import PooledSentences, SentencePooling
from regard.layers.validation import require_positive
from regard.models.classifiers.baselines import TextModel
from regard.models.embeddings import WordVectors
from regard.models.validation import require_lengths, require_shares, require_sizes

# Where the words of each sentence stand in a batch of documents: a ragged layout without padding.
#
# row 0   a b c d e PAD PAD     segments  0 0 1 1 1 · ·      sentences  ab  cde row 1   f g h i j k
# l       segments  0 0 0 0 0 2 2                 fghij  kl     (1 is empty)
#
# word       a b c d e f g h i j k l      the real tokens of the batch, one after the other sentence
# 0 0 1 1 1 2 2 2 2 2 3 3      which sentence each is in, empty ones not counted number     ab 0,
# cde 1, fghij 0, kl 1   a sentence's place in its document
#
# Sentences of like length can be read together (`groups`), so that one long sentence does not make
# all others as long.


LEAST_SHARE = 0.8  # of a group's longest sentence that its shortest has
LEAST_PLACES = 2048  # a smaller group would cost more in calls than it saves in padding


class SentenceLayout(NamedTuple):
    """The words and sentences of a batch, in order."""

    real: Bool[Tensor, "batch length"]
    sentence: Int[Tensor, " words"]
    lengths: Int[Tensor, " sentences"]
    row: Int[Tensor, " sentences"]
    number: Int[Tensor, " sentences"]
    segment: Int[Tensor, " sentences"]

    @classmethod
    def of(
        cls,
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"],
    ) -> Self:
        """The layout of these rows; a row's segments must not fall from left to right."""
        batch, length = segments.shape
        real = torch.arange(length, device=segments.device)[None] < lengths[:, None]
        row_of = torch.arange(batch, device=segments.device)[:, None].expand(batch, length)[real]
        segment_of = segments[real]
        begins = torch.ones_like(row_of, dtype=torch.bool)
        same_row = row_of[1:] == row_of[:-1]
        if bool((same_row & (segment_of[1:] < segment_of[:-1])).any()):
            raise RegardError(
                "The segments of a text fall from one token to the next: they must count its sentences "
                "from left to right, 0 0 1 1 1 2."
            )
        begins[1:] = ~same_row | (segment_of[1:] != segment_of[:-1])
        sentence = begins.cumsum(0) - 1
        first = begins.nonzero()[:, 0]
        row = row_of[first]
        counted = torch.arange(len(row), device=row.device)
        first_of_row = torch.ones_like(row, dtype=torch.bool)
        first_of_row[1:] = row[1:] != row[:-1]
        document_start = torch.where(first_of_row, counted, 0).cummax(0).values
        return cls(
            real=real,
            sentence=sentence,
            lengths=torch.bincount(sentence, minlength=len(row)),
            row=row,
            number=counted - document_start,
            segment=segment_of[first],
        )

    @property
    def first_word(self) -> Int[Tensor, " sentences"]:
        """The place of each sentence's first word among all words."""
        return self.lengths.cumsum(0) - self.lengths

    def per_document(self) -> Int[Tensor, " batch"]:
        """How many sentences, empty ones not counted, each document has."""
        return torch.bincount(self.row, minlength=self.real.shape[0])

    def groups(self) -> list[Int[Tensor, " some"]]:
        """The sentences in groups of like length; every sentence is in one."""
        by_length = torch.argsort(self.lengths, descending=True, stable=True)
        sizes = self.lengths[by_length].tolist()
        cuts, start = [], 0
        for place, size in enumerate(sizes):
            longest = sizes[start]
            if size < LEAST_SHARE * longest and (place - start) * longest >= LEAST_PLACES:
                cuts.append(by_length[start:place])
                start = place
        return [*cuts, by_length[start:]] if sizes else []

    def padded(
        self, group: Int[Tensor, " some"]
    ) -> tuple[Int[Tensor, "some longest"], Bool[Tensor, "some longest"]]:
        """Which word stands at each place of these sentences, and which places have one."""
        lengths = self.lengths[group]
        place = torch.arange(int(lengths.max()), device=lengths.device)[None]
        there = place < lengths[:, None]
        words = self.first_word[group][:, None] + place
        return torch.where(there, words, 0), there


# Sentences of documents pooled one after the other, each told the mean of those before it.
#
# onward   s₁ from nothing,  s₂ told s₁,  s₃ told (s₁ + s₂) / 2, … back     the same from the last
# sentence to the first
#
# All documents of a batch take a step together. What depends on words alone is computed before, so
# a step is only the pooling itself.


def pooled_in_turn(
    pooling: SentencePooling,
    words: Float[Tensor, "words width"],
    layout: SentenceLayout,
    *,
    direction: Literal["onward", "back"],
) -> PooledSentences:
    """The vectors of all sentences and the weights of all words, in their own order."""
    counts = layout.per_document()
    turn = layout.number if direction == "onward" else counts[layout.row] - 1 - layout.number
    # Words by the turn of their sentence, so that every step takes one slice of them.
    order = turn[layout.sentence].argsort(stable=True)
    words, projected = words[order], pooling.projected(words[order])
    sentence_order = turn.argsort(stable=True)
    told_rows = layout.row[sentence_order]
    rank = sentence_order.argsort()[layout.sentence[order]]
    known = words.new_zeros(len(counts), words.shape[1])
    contexts, weights = [], []
    first_word = first_sentence = 0
    words_of = torch.bincount(turn[layout.sentence], minlength=1).tolist()
    sentences_of = torch.bincount(turn, minlength=1).tolist()
    for step, (some_words, some) in enumerate(zip(words_of, sentences_of, strict=True)):
        taken = slice(first_word, first_word + some_words)
        rows = told_rows[first_sentence : first_sentence + some]
        pooled = pooling(
            words[taken],
            rank[taken] - first_sentence,
            count=some,
            projected=projected.of(taken),
            context=known[rows] / max(1, step),
        )
        known = known.index_add(0, rows, pooled.context)
        contexts.append(pooled.context)
        weights.append(pooled.weights)
        first_word, first_sentence = first_word + some_words, first_sentence + some
    return PooledSentences(
        context=torch.cat(contexts)[sentence_order.argsort()],
        weights=torch.cat(weights)[order.argsort()],
    )


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
