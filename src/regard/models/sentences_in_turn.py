"""Sentences of documents pooled one after the other, each told the mean of those before it.

    onward   s₁ from nothing,  s₂ told s₁,  s₃ told (s₁ + s₂) / 2, …
    back     the same from the last sentence to the first

All documents of a batch take a step together. What depends on words alone is computed before, so a step
is only the pooling itself.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.layers.sentence_pooling import PooledSentences, SentencePooling
from regard.models.sentence_layout import SentenceLayout


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
