"""Hierarchical attention network: words, sentences, document (Yang et al. 2016).

    words of a sentence → BiLSTM → attention pooling → sentence vector
    sentences of a document → BiLSTM → attention pooling → document vector → classes

A sentence is encoded in isolation, unless `context` adds a context vector to the pooling of its words
(Remy et al. 2019): the mean of the vectors of the preceding sentences, and with "both", in a second pass,
of the following ones; added, or gated. Words are batched with little padding: sentences of similar length
are bucketed across documents.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.core.batches import TokenInput, TokenSpec
from regard.core.errors import RegardError
from regard.core.masks import Padding
from regard.core.options import NonNegativeInt, PositiveInt, Probability, validated
from regard.core.protocols import TextAttention
from regard.core.traits import Size, Traits
from regard.layers.dropout import Dropout
from regard.layers.pooling import ContextPooling, Pooled
from regard.layers.recurrent import BidirectionalRecurrent
from regard.layers.sentence_pooling import PooledSentences, SentencePooling
from regard.models.classifier import ONE_OUTPUT, Classifier
from regard.models.stems import build_word_stem

MIN_LENGTH_RATIO = 0.8  # shortest to longest sentence of a bucket
MIN_PADDED_TOKENS = 2048  # a smaller bucket costs more in calls than it saves in padding


class SentenceLayout(NamedTuple):
    """Ragged layout of the sentences of a batch of documents.

        row 0   a b c d e PAD PAD     segments  0 0 1 1 1 · ·     sentences  ab  cde
        row 1   f g h i j k l         segments  0 0 0 0 0 2 2                fghij  kl   (1 is empty)

    real       which positions are tokens, not padding
    sentence   per word, 0 0 1 1 1 2 2 2 2 2 3 3: its sentence in the batch, without empty ones
    row        per sentence, its document; `number` its index there, `segment` its segment id
    """

    is_token: Bool[Tensor, "batch length"]
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
        """The layout of a batch; segment ids must not decrease within a row."""
        batch, length = segments.shape
        is_token = torch.arange(length, device=segments.device)[None] < lengths[:, None]
        row_of = torch.arange(batch, device=segments.device)[:, None].expand(batch, length)[
            is_token
        ]
        segment_of = segments[is_token]
        begins = torch.ones_like(row_of, dtype=torch.bool)
        same_row = row_of[1:] == row_of[:-1]
        if bool((same_row & (segment_of[1:] < segment_of[:-1])).any()):
            raise RegardError(
                "The segment ids of a text decrease: they must number its sentences in order, such as "
                "0 0 1 1 1 2."
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
            is_token=is_token,
            sentence=sentence,
            lengths=torch.bincount(sentence, minlength=len(row)),
            row=row,
            number=counted - document_start,
            segment=segment_of[first],
        )

    @property
    def first_word(self) -> Int[Tensor, " sentences"]:
        """Index of each sentence's first word among all words."""
        return self.lengths.cumsum(0) - self.lengths

    def sentences_per_document(self) -> Int[Tensor, " batch"]:
        """Number of non-empty sentences per document."""
        return torch.bincount(self.row, minlength=self.is_token.shape[0])

    def length_buckets(self) -> list[Int[Tensor, " some"]]:
        """The sentences in buckets of similar length."""
        by_length = torch.argsort(self.lengths, descending=True, stable=True)
        sizes = self.lengths[by_length].tolist()
        buckets, start = [], 0
        for end, size in enumerate(sizes):
            longest = sizes[start]
            if size < MIN_LENGTH_RATIO * longest and (end - start) * longest >= MIN_PADDED_TOKENS:
                buckets.append(by_length[start:end])
                start = end
        return [*buckets, by_length[start:]] if sizes else []

    def padded(
        self, bucket: Int[Tensor, " some"]
    ) -> tuple[Int[Tensor, "some longest"], Bool[Tensor, "some longest"]]:
        """Word index at each position of the padded sentences, and which positions are words."""
        lengths = self.lengths[bucket]
        position = torch.arange(int(lengths.max()), device=lengths.device)[None]
        is_word = position < lengths[:, None]
        words = self.first_word[bucket][:, None] + position
        return torch.where(is_word, words, 0), is_word


def pool_sequentially(
    pooling: SentencePooling,
    words: Float[Tensor, "words width"],
    layout: SentenceLayout,
    *,
    direction: Literal["forward", "backward"],
) -> PooledSentences:
    """Pool sentences in order, each with the mean of the preceding vectors as its context.

        forward    s₁ without context,  s₂ with s₁,  s₃ with (s₁ + s₂) / 2, …
        backward   the same from the last sentence to the first

    All documents of a batch take a step together. Projections of words are computed in advance.
    """
    counts = layout.sentences_per_document()
    step_of = layout.number if direction == "forward" else counts[layout.row] - 1 - layout.number
    # Words sorted by the step of their sentence, so that each step is one slice.
    order = step_of[layout.sentence].argsort(stable=True)
    words, projected = words[order], pooling.project(words[order])
    sentence_order = step_of.argsort(stable=True)
    row_order = layout.row[sentence_order]
    rank = sentence_order.argsort()[layout.sentence[order]]
    context_sum = words.new_zeros(len(counts), words.shape[1])
    contexts, weights = [], []
    first_word = first_sentence = 0
    words_per_step = torch.bincount(step_of[layout.sentence], minlength=1).tolist()
    sentences_per_step = torch.bincount(step_of, minlength=1).tolist()
    for step, (num_words, num_sentences) in enumerate(
        zip(words_per_step, sentences_per_step, strict=True)
    ):
        step_words = slice(first_word, first_word + num_words)
        rows = row_order[first_sentence : first_sentence + num_sentences]
        pooled = pooling(
            words[step_words],
            rank[step_words] - first_sentence,
            count=num_sentences,
            projected=projected.of(step_words),
            context=context_sum[rows] / max(1, step),
        )
        context_sum = context_sum.index_add(0, rows, pooled.context)
        contexts.append(pooled.context)
        weights.append(pooled.weights)
        first_word, first_sentence = first_word + num_words, first_sentence + num_sentences
    return PooledSentences(
        context=torch.cat(contexts)[sentence_order.argsort()],
        weights=torch.cat(weights)[order.argsort()],
    )


# context → directions in which sentences are pooled
DIRECTIONS: dict[str, tuple[Literal["forward", "backward"], ...]] = {
    "none": (),
    "before": ("forward",),
    "both": ("forward", "backward"),
}


class HierarchicalClassifier(Classifier):
    """Hierarchical attention network, with optional sentence context.

    model_dim        width of the word embedding, whose other options are those of `WordEmbedding`
    hidden_dim       width of the word and sentence encoders, per direction
    attention_dim    hidden size of the attention pooling; default: its input size
    context          what a sentence's pooling knows of the others: none, before or both
    gated            whether a gate weighs the context against the word, instead of adding it
    dropout          dropout probability of sentence and document features
    """

    traits: ClassVar[Traits] = Traits(
        inputs=frozenset({"tokens"}),
        targets=ONE_OUTPUT,
        sizes={"hidden_dim": Size(), "model_dim": Size()},
        segments="sentences",
    )

    @validated
    def __init__(
        self,
        *,
        source: TokenSpec | PositiveInt,
        outputs: PositiveInt,
        model_dim: PositiveInt = 128,
        hidden_dim: PositiveInt = 64,
        cell: Literal["lstm", "gru", "tanh"] = "lstm",
        attention_dim: PositiveInt | None = None,
        context: Literal["none", "before", "both"] = "none",
        gated: bool = False,
        bigram_buckets: NonNegativeInt = 0,
        affix_buckets: NonNegativeInt = 0,
        dropout: Probability = 0.5,
        input_dropout: Probability | None = None,
        word_dropout: Probability = 0.1,
    ) -> None:
        super().__init__()
        if gated and context == "none":
            raise RegardError(
                "gated=True without a context: the gate weighs a word against the context. Set "
                "context=before or context=both, or remove gated."
            )
        self.words = build_word_stem(
            source,
            model_dim=model_dim,
            bigram_buckets=bigram_buckets,
            affix_buckets=affix_buckets,
            dropout=dropout,
            input_dropout=input_dropout,
            word_dropout=word_dropout,
            stem=None,
            in_sentences=True,
        )
        self.word_reader = BidirectionalRecurrent(
            model_dim=model_dim, hidden_dim=hidden_dim, cell=cell
        )
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
        self.sentence_reader = BidirectionalRecurrent(
            model_dim=width * len(self.word_pooling), hidden_dim=hidden_dim, cell=cell
        )
        self.sentence_pooling = ContextPooling(
            model_dim=self.sentence_reader.output_dim, hidden_dim=attention_dim
        )
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(self.sentence_reader.output_dim, outputs)

    def features(self, input: TokenInput) -> Float[Tensor, "batch width"]:
        """The vector of each document; without segments it is one sentence."""
        layout, sentences = self._encode_sentences(input)
        document = self._pool_sentences(sentences.context, layout)
        features: Tensor = self.dropout(document.context[:, 0])
        return features

    def text_attention(self, input: TokenInput) -> TextAttention:
        """Attention over words within sentences, and over sentences within documents."""
        layout, sentences = self._encode_sentences(input)
        document = self._pool_sentences(sentences.context, layout)
        words = sentences.weights.new_zeros(layout.is_token.shape)
        words[layout.is_token] = sentences.weights
        by_segment = words.new_zeros(len(words), int(layout.segment.max()) + 1)
        by_segment[layout.row, layout.segment] = document.weights[:, 0][layout.row, layout.number]
        return TextAttention(words[:, None], by_segment)

    def sentence_vectors(self, input: TokenInput) -> Float[Tensor, "sentences width"]:
        """One vector per sentence, before the sentence encoder; documents are concatenated."""
        return self._encode_sentences(input)[1].context

    def _encode_sentences(self, input: TokenInput) -> tuple[SentenceLayout, PooledSentences]:
        """The layout, the sentence vectors and the attention weights of all words."""
        segments = torch.zeros_like(input.tokens) if input.segments is None else input.segments
        layout = SentenceLayout.of(input.lengths, segments)
        vectors = self.words(input).frames[layout.is_token]
        return layout, self._pool_words(self.dropout(self._encode_words(vectors, layout)), layout)

    def _pool_words(self, words: Tensor, layout: SentenceLayout) -> PooledSentences:
        """Sentence vectors; with two directions, the mean of their weights."""
        if not self.directions:
            pooling = self.word_pooling[0]
            pooled: PooledSentences = pooling(words, layout.sentence, count=len(layout.lengths))
            return pooled
        directions = [
            pool_sequentially(pooling, words, layout, direction=direction)  # type: ignore[arg-type]
            for pooling, direction in zip(self.word_pooling, self.directions, strict=True)
        ]
        return PooledSentences(
            context=torch.cat([pooled.context for pooled in directions], dim=-1),
            weights=torch.stack([pooled.weights for pooled in directions]).mean(dim=0),
        )

    def _encode_words(self, vectors: Tensor, layout: SentenceLayout) -> Tensor:
        """Word features in the context of their sentences, in word order."""
        features, indices = [], []
        for bucket in layout.length_buckets():
            index, is_word = layout.padded(bucket)
            output = self.word_reader(vectors[index], layout.lengths[bucket])
            features.append(output[is_word])
            indices.append(index[is_word])
        return torch.cat(features)[torch.cat(indices).argsort()]

    def _pool_sentences(self, sentences: Tensor, layout: SentenceLayout) -> Pooled:
        counts = layout.sentences_per_document()
        padded = sentences.new_zeros(len(counts), int(counts.max()), sentences.shape[1])
        padded[layout.row, layout.number] = self.dropout(sentences)
        pooled: Pooled = self.sentence_pooling(
            self.sentence_reader(padded, counts), Padding(counts)
        )
        return pooled
