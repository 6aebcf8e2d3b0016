"""Sentence pooling without padding: each sentence alone, context vectors, gates, cost."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from tests.factories.declared_costs import assert_declared_cost
from torch import Tensor

from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape
from regard.layers.pooling import ContextPooling
from regard.layers.sentence_pooling import SentencePooling, segment_softmax, segment_sum

SENTENCE = torch.tensor([0, 0, 1, 1, 1, 2])


def words() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(6, 4, dtype=torch.float64)


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5), min_size=1, max_size=5))
def test_segment_softmax_equals_softmax_of_each(segments: list[list[float]]) -> None:
    scores = torch.tensor([s for some in segments for s in some], dtype=torch.float64)
    segment = torch.tensor([number for number, some in enumerate(segments) for _ in some])
    weights = segment_softmax(scores, segment, count=len(segments))
    for number, some in enumerate(segments):
        expected = torch.tensor(some, dtype=torch.float64).softmax(0)
        torch.testing.assert_close(weights[segment == number], expected)


def test_an_empty_segment_sums_to_zeros() -> None:
    sums = segment_sum(torch.ones(2), torch.ones(2, 3), torch.tensor([0, 2]), count=4)
    assert sums.tolist() == [[1.0] * 3, [0.0] * 3, [1.0] * 3, [0.0] * 3]


def test_each_sentence_equals_pooling_it_alone() -> None:
    torch.manual_seed(1)
    pooling = SentencePooling(model_dim=4, hidden_dim=3).double()
    alone = ContextPooling(model_dim=4, hidden_dim=3).double()
    with torch.no_grad():
        alone.hidden.weight.copy_(pooling.hidden.weight)
        alone.hidden.bias.copy_(pooling.hidden.bias)
        alone.context.copy_(pooling.score)
    pooled = pooling(words(), SENTENCE, count=3)
    for number in range(3):
        own = number == SENTENCE
        expected = alone(words()[own][None])
        torch.testing.assert_close(pooled.context[number], expected.context[0, 0])
        torch.testing.assert_close(pooled.weights[own], expected.weights[0, 0])


def test_a_closed_gate_uses_the_context_only() -> None:
    torch.manual_seed(1)
    pooling = SentencePooling(model_dim=4, hidden_dim=3, context_dim=2, gated=True).double()
    assert pooling.gate is not None
    with torch.no_grad():
        pooling.gate.bias.fill_(-100.0)
    context = torch.randn(3, 2, dtype=torch.float64)
    # One and the same score for all words of a sentence: equal weights.
    weights = pooling(words(), SENTENCE, count=3, context=context).weights
    expected = torch.tensor([1 / 2] * 2 + [1 / 3] * 3 + [1], dtype=torch.float64)
    torch.testing.assert_close(weights, expected)
    with torch.no_grad():
        pooling.gate.bias.fill_(100.0)
    deaf = pooling(words(), SENTENCE, count=3, context=context).weights
    torch.testing.assert_close(deaf, pooling(words(), SENTENCE, count=3, context=-context).weights)


def test_a_context_changes_the_weights_of_its_sentence_only() -> None:
    torch.manual_seed(1)
    pooling = SentencePooling(model_dim=4, hidden_dim=3, context_dim=2).double()
    context = torch.zeros(3, 2, dtype=torch.float64)
    before = pooling(words(), SENTENCE, count=3, context=context).weights
    context[1] = 3.0
    after = pooling(words(), SENTENCE, count=3, context=context).weights
    assert torch.equal(before[SENTENCE != 1], after[SENTENCE != 1])
    assert not torch.allclose(before[SENTENCE == 1], after[SENTENCE == 1])


@pytest.mark.parametrize("context_dim", [None, 6])
@pytest.mark.parametrize("gated", [False, True])
def test_cost(context_dim: int | None, gated: bool) -> None:
    if gated and context_dim is None:
        with pytest.raises(RegardError, match="gated=True and no context_dim"):
            SentencePooling(model_dim=4, gated=True)
        return
    torch.manual_seed(0)
    pooling = SentencePooling(model_dim=40, hidden_dim=30, context_dim=context_dim, gated=gated)
    context = None if context_dim is None else torch.randn(5, context_dim, requires_grad=True)
    x = torch.randn(35, 40, requires_grad=True)
    sentence = torch.arange(5).repeat_interleave(7)

    def forward() -> Tensor:
        return pooling(x, sentence, count=5, context=context).context

    assert_declared_cost(
        pooling.cost(SequenceShape(batch_size=5, length=7)),
        parameters=sum(parameter.numel() for parameter in pooling.parameters()),
        forward=forward,
        where=f"{context_dim}, {gated}",
    )
