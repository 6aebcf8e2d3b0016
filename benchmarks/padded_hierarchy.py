"""The hierarchical classifier as it is straightforwardly written: every sentence padded to the longest.

    documents × sentences × words, one rectangular tensor; padding read like everything else, then masked

It takes the weights of a `HierarchicalClassifier` and gives the same logits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.batches import PAD
from regard.core.masks import Padding
from regard.layers.sentence_pooling import SentencePooling
from regard.models.classifiers.hierarchical import HierarchicalClassifier, SentenceLayout


def rectangular(tokens: Tensor, lengths: Tensor, segments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (documents, sentences, words), how long each sentence is, how many each document has."""
    layout = SentenceLayout.of(lengths, segments)
    counts = layout.per_document()
    shape = len(tokens), int(counts.max()), int(layout.lengths.max())
    words = torch.full(shape, PAD)
    sizes = torch.zeros(shape[:2], dtype=torch.long)
    row, number = layout.row[layout.sentence], layout.number[layout.sentence]
    starts = layout.lengths.cumsum(0) - layout.lengths
    within = torch.arange(len(layout.sentence)) - starts[layout.sentence]
    words[row, number, within] = tokens[layout.real]
    sizes[layout.row, layout.number] = layout.lengths
    return words, sizes, counts


def padded_logits(
    model: HierarchicalClassifier, words: Tensor, sizes: Tensor, counts: Tensor
) -> Tensor:
    """What the model says, computed on the padded rectangle."""
    documents, sentences, longest = words.shape
    flat, lengths = words.view(-1, longest), sizes.view(-1)
    read = model.dropout(model.word_reader(model.words(flat, lengths), lengths))
    pooling = model.word_pooling[0]
    assert isinstance(pooling, SentencePooling)
    scores = torch.tanh(pooling.hidden(read)) @ pooling.score
    real = torch.arange(longest) < lengths[:, None]
    # A sentence that is padding throughout gets even weights over words that are zeros.
    weights = scores.masked_fill(~real, -1e9).softmax(dim=1)
    vectors = (weights[:, None] @ read)[:, 0].view(documents, sentences, -1)
    pooled = model.sentence_pooling(
        model.sentence_reader(model.dropout(vectors), counts), Padding(counts)
    )
    logits: Tensor = model.output(model.dropout(pooled.context[:, 0]))
    return logits
