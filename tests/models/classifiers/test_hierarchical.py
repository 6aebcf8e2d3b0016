"""Hierarchical attention network against one document and one sentence at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.batches import TokenInput
from regard.models.classifiers.hierarchical import HierarchicalClassifier

# A document of three sentences, and one of two with an empty one between them.
DOCUMENTS = [[[5, 6, 7], [8], [9, 10, 5, 6]], [[7, 7], [], [11, 6, 9]]]


def built(**options: Any) -> HierarchicalClassifier:
    torch.manual_seed(0)
    model = HierarchicalClassifier(
        source=13, outputs=2, model_dim=6, hidden_dim=4, attention_dim=5, **options
    )
    return model.double().eval()


def batch(documents: list[list[list[int]]] = DOCUMENTS) -> TokenInput:
    rows = [[word for sentence in document for word in sentence] for document in documents]
    numbers = [
        [number for number, sentence in enumerate(document) for _ in sentence]
        for document in documents
    ]
    longest = max(map(len, rows))
    return TokenInput(
        torch.tensor([row + [0] * (longest - len(row)) for row in rows]),
        torch.tensor([len(row) for row in rows]),
        torch.tensor([number + [0] * (longest - len(number)) for number in numbers]),
    )


def vectors_of(model: HierarchicalClassifier, document: list[list[int]]) -> Tensor:
    return model.sentence_vectors(batch([document]))


@pytest.mark.parametrize("bigram_buckets", [0, 40])
def test_attention_equals_that_of_single_sentences_and_documents(bigram_buckets: int) -> None:
    model = built(bigram_buckets=bigram_buckets)
    attention = model.text_attention(batch())
    assert attention.sentences is not None
    for row, document in enumerate(DOCUMENTS):
        sentences, first = [], 0
        for sentence in filter(None, document):
            tokens, length = torch.tensor([sentence]), torch.tensor([len(sentence)])
            hidden = model.word_reader(model.words(TokenInput(tokens, length)).frames, length)[0]
            pooled = model.word_pooling[0](
                hidden, torch.zeros(len(hidden), dtype=torch.long), count=1
            )
            sentences.append(pooled.context)
            weights = attention.tokens[row, 0, first : first + len(sentence)]
            torch.testing.assert_close(weights, pooled.weights)
            first += len(sentence)
        count = torch.tensor([len(sentences)])
        whole = model.sentence_reader(torch.cat(sentences)[None], count)
        expected = model.sentence_pooling(whole).weights[0, 0]
        assert expected.unique().numel() == len(expected)  # the order matters
        numbers = [number for number, sentence in enumerate(document) if sentence]
        torch.testing.assert_close(attention.sentences[row, numbers], expected)
    assert attention.sentences[1, 1] == 0


@pytest.mark.parametrize("bigram_buckets", [0, 40])
def test_sentences_are_encoded_in_isolation(bigram_buckets: int) -> None:
    model = built(bigram_buckets=bigram_buckets)
    document = [[5, 6, 7], [8, 9], [9, 10, 5, 6], [4, 4]]
    before = vectors_of(model, document)
    for changed in range(len(document)):
        other = [*document]
        other[changed] = [*([12] * len(document[changed])), 11]
        difference = (vectors_of(model, other) - before).abs().amax(dim=1)
        assert (difference > 1e-12).nonzero()[:, 0].tolist() == [changed]


def test_bigrams_within_a_sentence() -> None:
    """Sentence vectors with and without bigrams differ."""
    model = built(bigram_buckets=40)
    with_bigrams = vectors_of(model, [[5, 6, 7], [8]])
    model.words.pairs = None  # type: ignore[assignment]
    difference = (vectors_of(model, [[5, 6, 7], [8]]) - with_bigrams).abs().amax(dim=1)
    assert difference[0] > 1e-6
    assert difference[1] < 1e-12  # a single word has no bigram


def test_segments_default_to_one_sentence() -> None:
    model = built(bigram_buckets=40, context="both")
    texts = batch()
    plain = model.classify(TokenInput(texts.tokens, texts.lengths))
    one = model.classify(replace(texts, segments=torch.zeros_like(texts.tokens)))
    assert torch.equal(plain.logits, one.logits)
