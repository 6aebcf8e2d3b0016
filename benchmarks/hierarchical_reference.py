"""Reference implementation of the hierarchical classifier: every sentence padded to the longest.

    documents × sentences × words as one tensor; padding is encoded too, then masked

It uses the parameters of a `HierarchicalClassifier` and returns the same logits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.batches import PAD, TokenInput
from regard.core.masks import Padding
from regard.layers.sentence_pooling import SentencePooling
from regard.models.classifiers.hierarchical import HierarchicalClassifier, SentenceLayout


def rectangular(tokens: Tensor, lengths: Tensor, segments: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (documents, sentences, words), sentence lengths, and sentences per document."""
    layout = SentenceLayout.of(lengths, segments)
    counts = layout.sentences_per_document()
    shape = len(tokens), int(counts.max()), int(layout.lengths.max())
    words = torch.full(shape, PAD)
    sizes = torch.zeros(shape[:2], dtype=torch.long)
    row, number = layout.row[layout.sentence], layout.number[layout.sentence]
    starts = layout.lengths.cumsum(0) - layout.lengths
    within = torch.arange(len(layout.sentence)) - starts[layout.sentence]
    words[row, number, within] = tokens[layout.is_token]
    sizes[layout.row, layout.number] = layout.lengths
    return words, sizes, counts


def padded_logits(
    model: HierarchicalClassifier, words: Tensor, sizes: Tensor, counts: Tensor
) -> Tensor:
    """Logits, computed on the padded tensor."""
    documents, sentences, longest = words.shape
    flat, lengths = words.view(-1, longest), sizes.view(-1)
    hidden = model.dropout(
        model.word_reader(model.words(TokenInput(flat, lengths, padded=True)).frames, lengths)
    )
    pooling = model.word_pooling[0]
    assert isinstance(pooling, SentencePooling)
    scores = torch.tanh(pooling.hidden(hidden)) @ pooling.score
    is_token = torch.arange(longest) < lengths[:, None]
    # An empty sentence gets uniform weights over zero vectors.
    weights = scores.masked_fill(~is_token, -1e9).softmax(dim=1)
    vectors = (weights[:, None] @ hidden)[:, 0].view(documents, sentences, -1)
    pooled = model.sentence_pooling(
        model.sentence_reader(model.dropout(vectors), counts), Padding(counts)
    )
    logits: Tensor = model.head(model.dropout(pooled.context[:, 0]))
    return logits
