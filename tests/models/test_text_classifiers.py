"""Contract of every text classifier: batching, padding, gradients, attention."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.batches import TokenInput
from regard.core.protocols import TextClassifier
from regard.core.traits import traits_of
from regard.data.tokenizers.vocabulary import FIRST_TOKEN
from regard.models import MODELS, build_model, model_class
from regard.models.embeddings import WordEmbedding

VOCABULARY, CLASSES = 31, 3
SMALL: dict[str, dict[str, Any]] = {
    "text_encoder": {"model_dim": 12, "num_heads": 3, "num_layers": 2, "pretraining_heads": False},
    "structured": {"model_dim": 10, "hidden_dim": 6, "hops": 3, "attention_dim": 5},
    "hierarchical": {"model_dim": 10, "hidden_dim": 6, "attention_dim": 5},
    "bag_of_words": {"model_dim": 10},
    "bilstm": {"model_dim": 10, "hidden_dim": 6},
    "convolutional": {"model_dim": 10, "filters": 4, "widths": (3, 5)},
    "recursive_autoencoder": {"model_dim": 10},
}


def is_text_classifier(name: str) -> bool:
    traits = traits_of(model_class(name))
    return "tokens" in traits.inputs and "class" in traits.targets


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in MODELS if is_text_classifier(name)},
    "structured without a recurrent layer": ("structured", {"hidden_dim": 0}),
    "structured, bigrams": ("structured", {"bigram_buckets": 50, "feed_forward_dim": 7}),
    "bilstm, bigrams": ("bilstm", {"bigram_buckets": 50}),
    "hierarchical, both and bigrams": ("hierarchical", {"context": "both", "bigram_buckets": 50}),
    "structured, frobenius": ("structured", {"penalty": "frobenius"}),
    "structured, kl": ("structured", {"penalty": "kl", "cell": "gru"}),
    "hierarchical, before": ("hierarchical", {"context": "before"}),
    "hierarchical, both": ("hierarchical", {"context": "both"}),
    "hierarchical, gated": ("hierarchical", {"context": "both", "gated": True}),
    "hierarchical, gru and bigrams": ("hierarchical", {"cell": "gru", "bigram_buckets": 50}),
    "bilstm, last": ("bilstm", {"pooling": "last"}),
    "bilstm, mean": ("bilstm", {"pooling": "mean", "cell": "tanh"}),
    "bag_of_words, bigrams": ("bag_of_words", {"bigram_buckets": 50}),
    "bag_of_words, affixes": ("bag_of_words", {"affix_buckets": 50}),
    "structured, affixes": ("structured", {"affix_buckets": 50}),
    "hierarchical, affixes": ("hierarchical", {"affix_buckets": 50}),
    "bilstm, affixes": ("bilstm", {"affix_buckets": 50}),
    "convolutional, affixes": ("convolutional", {"affix_buckets": 50, "bigram_buckets": 50}),
}
SENTENCES = [[3, 2, 4], [1, 5], [9]]


def built(case: str) -> Any:
    name, options = CASES[case]
    torch.manual_seed(0)
    model = build_model(name, source=VOCABULARY, outputs=CLASSES, **(SMALL[name] | options))
    set_words(model)
    return model.double().eval()


def set_words(model: Any) -> None:
    """Distinct dummy words."""
    for module in model.modules():
        if isinstance(module, WordEmbedding):
            module.set_words([f"word{number}" for number in range(FIRST_TOKEN, VOCABULARY)])


def batch(
    documents: list[list[int]] = SENTENCES, *, extra: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Documents of sentences of these lengths, with `extra` columns of padding."""
    lengths = torch.tensor([sum(sizes) for sizes in documents])
    tokens = torch.zeros(len(documents), int(lengths.max()) + extra, dtype=torch.long)
    segments = torch.zeros_like(tokens)
    for row, sizes in enumerate(documents):
        random = Random(sum(sizes))
        count = sum(sizes)
        tokens[row, :count] = torch.tensor([random.randrange(3, VOCABULARY) for _ in range(count)])
        numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
        segments[row, :count] = torch.tensor(numbers)
    return tokens, lengths, segments


def segments_for(case: str, segments: Tensor) -> Tensor | None:
    """The text encoder has two segments only."""
    return None if CASES[case][0] == "text_encoder" else segments


@pytest.mark.parametrize("case", CASES)
def test_batching_does_not_change_a_text(case: str) -> None:
    model = built(case)
    assert isinstance(model, TextClassifier)
    tokens, lengths, segments = batch(extra=4)
    together = model.classify(TokenInput(tokens, lengths, segments_for(case, segments)))
    assert together.logits.shape == (3, CLASSES)
    assert together.penalty.shape == (3,)
    for row, length in enumerate(lengths.tolist()):
        own = slice(row, row + 1)
        own_segments = segments_for(case, segments[own, :length])
        alone = model.classify(TokenInput(tokens[own, :length], lengths[own], own_segments))
        torch.testing.assert_close(alone.logits, together.logits[own], rtol=0, atol=1e-12)
        torch.testing.assert_close(alone.penalty, together.penalty[own], rtol=0, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_padding_tokens_are_ignored(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch(extra=2)
    padded = torch.arange(tokens.shape[1]) >= lengths[:, None]
    segment_ids = segments_for(case, segments)
    expected = model.classify(TokenInput(tokens, lengths, segment_ids)).logits
    other = model.classify(TokenInput(tokens.masked_fill(padded, 7), lengths, segment_ids)).logits
    torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_empty_sentences_are_ignored(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch([[3, 2, 4], [1, 5], [9, 2]], extra=2)
    # An empty sentence before the second, and two before the third.
    gaps = 2 * segments + (segments > 1)
    padded = torch.arange(tokens.shape[1]) >= lengths[:, None]
    segment_ids = segments_for(case, segments)
    others = segments_for(case, gaps.masked_fill(padded, 50))
    expected = model.classify(TokenInput(tokens, lengths, segment_ids))
    found = model.classify(TokenInput(tokens, lengths, others))
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.penalty, expected.penalty, rtol=0, atol=1e-12)
    attention, same = (
        model.text_attention(TokenInput(tokens, lengths, others)),
        model.text_attention(TokenInput(tokens, lengths, segment_ids)),
    )
    if attention is None:
        assert same is None
        return
    torch.testing.assert_close(attention.tokens, same.tokens, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        attention.importance(gaps), same.importance(segments), rtol=0, atol=1e-12
    )
    if attention.sentences is not None:
        assert not attention.sentences[:, [1, 3, 4]].any()


@pytest.mark.parametrize("case", CASES)
def test_attention_sums_to_one_without_padding(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch(extra=2)
    attention = model.text_attention(TokenInput(tokens, lengths, segments_for(case, segments)))
    if attention is None:
        assert CASES[case][0] in (
            "bag_of_words",
            "bilstm",
            "convolutional",
            "recursive_autoencoder",
        )
        return
    importance = attention.importance(segments)
    torch.testing.assert_close(importance.sum(-1), torch.ones(3, dtype=torch.float64))
    padded = torch.arange(tokens.shape[1]) >= lengths[:, None]
    assert not importance[padded].any()
    assert not attention.tokens.transpose(1, 2)[padded].any()
    if attention.sentences is not None:
        torch.testing.assert_close(attention.sentences.sum(-1), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("case", CASES)
def test_every_parameter_has_a_gradient(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch()
    output = model.classify(TokenInput(tokens, lengths, segments_for(case, segments)))
    (output.logits.square().sum() + output.penalty.sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
