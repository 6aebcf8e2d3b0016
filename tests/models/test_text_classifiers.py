"""Every classifier of texts meets one contract: batches, padding, gradients, readings, costs, weights."""

from __future__ import annotations

from inspect import signature
from random import Random
from typing import Any

import pytest
import torch
from tests.factories.declared_costs import require_declared
from torch import Tensor

from regard.core.protocols import TextClassifier
from regard.data.tokenizers.vocabulary import FIRST_TOKEN
from regard.models import MODELS, build_model

VOCABULARY, CLASSES = 31, 3
SMALL: dict[str, dict[str, Any]] = {
    "text_encoder": {"model_dim": 12, "num_heads": 3, "num_layers": 2, "pretraining_heads": False},
    "structured": {"model_dim": 10, "hidden_dim": 6, "hops": 3, "attention_dim": 5},
    "hierarchical": {"model_dim": 10, "hidden_dim": 6, "attention_dim": 5},
    "mean_words": {"model_dim": 10},
    "recurrent_text": {"model_dim": 10, "hidden_dim": 6},
    "convolutional": {"model_dim": 10, "filters": 4, "widths": (3, 5)},
    "recursive_autoencoder": {"model_dim": 10},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name, entry in MODELS.items() if entry.reads == "texts"},
    "structured without a recurrent layer": ("structured", {"hidden_dim": 0}),
    "structured, pairs": ("structured", {"pair_table": 50, "feed_forward_dim": 7}),
    "recurrent_text, pairs": ("recurrent_text", {"pair_table": 50}),
    "hierarchical, both and pairs": ("hierarchical", {"context": "both", "pair_table": 50}),
    "structured, frobenius": ("structured", {"penalty": "frobenius"}),
    "structured, kl": ("structured", {"penalty": "kl", "cell": "gru"}),
    "hierarchical, before": ("hierarchical", {"context": "before"}),
    "hierarchical, both": ("hierarchical", {"context": "both"}),
    "hierarchical, gated": ("hierarchical", {"context": "both", "gated": True}),
    "hierarchical, gru and pairs": ("hierarchical", {"cell": "gru", "pair_table": 50}),
    "recurrent_text, last": ("recurrent_text", {"take": "last"}),
    "recurrent_text, mean": ("recurrent_text", {"take": "mean", "cell": "tanh"}),
    "mean_words, pairs": ("mean_words", {"pair_table": 50}),
    "mean_words, spelling": ("mean_words", {"spelling_table": 50}),
    "structured, spelling": ("structured", {"spelling_table": 50}),
    "hierarchical, spelling": ("hierarchical", {"spelling_table": 50}),
    "recurrent_text, spelling": ("recurrent_text", {"spelling_table": 50}),
    "convolutional, spelling": ("convolutional", {"spelling_table": 50, "pair_table": 50}),
}
SENTENCES = [[3, 2, 4], [1, 5], [9]]


def built(case: str) -> Any:
    name, options = CASES[case]
    torch.manual_seed(0)
    model = build_model(name, vocabulary=VOCABULARY, classes=CLASSES, **(SMALL[name] | options))
    spell(model)
    return model.double().eval()


def spell(model: Any) -> None:
    """Made-up words, all different."""
    if "spelling_table" in signature(type(model)).parameters:
        model.words.spell([f"word{number}" for number in range(FIRST_TOKEN, VOCABULARY)])


def batch(
    documents: list[list[int]] = SENTENCES, *, extra: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Documents of sentences of these lengths, padded by `extra` places more than needed."""
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
    """The encoder knows two segments and no more."""
    return None if CASES[case][0] == "text_encoder" else segments


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_the_same_alone_and_in_any_batch(case: str) -> None:
    model = built(case)
    assert isinstance(model, TextClassifier)
    tokens, lengths, segments = batch(extra=4)
    together = model.classified(tokens, lengths, segments_for(case, segments))
    assert together.logits.shape == (3, CLASSES)
    assert together.penalty.shape == (3,)
    for row, length in enumerate(lengths.tolist()):
        own = slice(row, row + 1)
        alone = model.classified(
            tokens[own, :length], lengths[own], segments_for(case, segments[own, :length])
        )
        torch.testing.assert_close(alone.logits, together.logits[own], rtol=0, atol=1e-12)
        torch.testing.assert_close(alone.penalty, together.penalty[own], rtol=0, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_padding_may_hold_any_token(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch(extra=2)
    padded = torch.arange(tokens.shape[1]) >= lengths[:, None]
    parts = segments_for(case, segments)
    expected = model.classified(tokens, lengths, parts).logits
    other = model.classified(tokens.masked_fill(padded, 7), lengths, parts).logits
    torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_an_empty_sentence_changes_nothing(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch([[3, 2, 4], [1, 5], [9, 2]], extra=2)
    # One more than before is empty before the second sentence, and another before the third.
    gaps = 2 * segments + (segments > 1)
    padded = torch.arange(tokens.shape[1]) >= lengths[:, None]
    parts = segments_for(case, segments)
    others = segments_for(case, gaps.masked_fill(padded, 50))
    expected = model.classified(tokens, lengths, parts)
    found = model.classified(tokens, lengths, others)
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.penalty, expected.penalty, rtol=0, atol=1e-12)
    reading, same = model.reading(tokens, lengths, others), model.reading(tokens, lengths, parts)
    if reading is None:
        assert same is None
        return
    torch.testing.assert_close(reading.tokens, same.tokens, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        reading.importance(gaps), same.importance(segments), rtol=0, atol=1e-12
    )
    if reading.sentences is not None:
        assert not reading.sentences[:, [1, 3, 4]].any()


@pytest.mark.parametrize("case", CASES)
def test_weights_sum_to_one_and_spare_padding(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch(extra=2)
    reading = model.reading(tokens, lengths, segments_for(case, segments))
    if reading is None:
        assert CASES[case][0] in (
            "mean_words",
            "recurrent_text",
            "convolutional",
            "recursive_autoencoder",
        )
        return
    importance = reading.importance(segments)
    torch.testing.assert_close(importance.sum(-1), torch.ones(3, dtype=torch.float64))
    padded = torch.arange(tokens.shape[1]) >= lengths[:, None]
    assert not importance[padded].any()
    assert not reading.tokens.transpose(1, 2)[padded].any()
    if reading.sentences is not None:
        torch.testing.assert_close(reading.sentences.sum(-1), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("case", CASES)
def test_every_weight_is_learned(case: str) -> None:
    model = built(case)
    tokens, lengths, segments = batch()
    said = model.classified(tokens, lengths, segments_for(case, segments))
    (said.logits.square().sum() + said.penalty.sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("case", [case for case in CASES if "recursive" not in case])
def test_cost_is_what_is_counted(case: str) -> None:
    name, options = CASES[case]
    random = Random(case)
    for _ in range(5):
        sizes = dict(SMALL[name] | options)
        for width in ("model_dim", "hidden_dim", "attention_dim"):
            if sizes.get(width):
                sizes[width] = 3 * random.randint(14, 24)
        sizes["penalty"] = "none"
        if name != "structured":
            del sizes["penalty"]
        model: Any = build_model(name, vocabulary=VOCABULARY, classes=CLASSES, **sizes)
        spell(model)
        rows, sentences, words = random.randint(2, 5), random.randint(1, 4), random.randint(2, 9)
        inputs = batch([[words] * sentences] * rows)
        parts = segments_for(case, inputs[2])
        length = words * sentences

        def forward(
            model: Any = model, inputs: Any = inputs, parts: Tensor | None = parts
        ) -> Tensor:
            logits: Tensor = model.eval().classified(inputs[0], inputs[1], parts).logits
            return logits

        cost = model.cost(batch_size=rows, length=length, places=0, sentences=sentences)
        require_declared(
            cost,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            forward=forward,
            where=f"{case}, {rows} × {sentences} × {words}",
        )
