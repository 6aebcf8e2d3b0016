"""Attention pooling and its penalties: by hand, padding, gradients, costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Padding
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.pooling import (
    ContextPooling,
    StructuredPooling,
    frobenius_penalty,
    pairwise_kl_penalty,
)
from regard.layers.recurrent import Recurrent

Pooling = StructuredPooling | ContextPooling
LAYERS = [
    lambda: StructuredPooling(model_dim=5, hidden_dim=7, hops=3),
    lambda: StructuredPooling(model_dim=5, hidden_dim=7),
    lambda: ContextPooling(model_dim=5),
    lambda: ContextPooling(model_dim=5, hidden_dim=7),
]


def set_to(parameter: Tensor, numbers: list[list[float]] | list[float]) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(numbers))


def test_structured_by_hand() -> None:
    layer = StructuredPooling(model_dim=1, hidden_dim=1, hops=2)
    set_to(layer.hidden.weight, [[1.0]])
    set_to(layer.score.weight, [[1.0], [0.0]])
    # tanh(atanh ½) = ½, so the first hop weighs e^½ against 1; the second does not care.
    x = torch.tensor([[[math.atanh(0.5)], [0.0]]])
    context, weights = layer(x)
    first = math.exp(0.5) / (math.exp(0.5) + 1)
    assert weights.flatten().tolist() == pytest.approx([first, 1 - first, 0.5, 0.5])
    expected = [first * math.atanh(0.5), 0.5 * math.atanh(0.5)]
    assert context.flatten().tolist() == pytest.approx(expected)


def test_context_by_hand() -> None:
    layer = ContextPooling(model_dim=1)
    set_to(layer.hidden.weight, [[1.0]])
    set_to(layer.hidden.bias, [math.atanh(0.5)])
    set_to(layer.context, [2.0])
    # tanh of 0 + b is ½, scored 2·½ = 1; tanh of −b + b is 0.
    context, weights = layer(torch.tensor([[[0.0], [-math.atanh(0.5)]]]))
    first = math.e / (math.e + 1)
    assert weights.flatten().tolist() == pytest.approx([first, 1 - first])
    assert context.item() == pytest.approx(-(1 - first) * math.atanh(0.5))


@pytest.mark.parametrize("build", LAYERS)
def test_padding_has_weight_zero(build: Callable[[], Pooling]) -> None:
    layer, x = build(), torch.randn(3, 11, 5, requires_grad=True)
    context, weights = layer(x, Padding(torch.tensor([11, 2, 0])))
    assert (weights[1, :, 2:] == 0).all()
    assert (weights[2] == 0).all()
    assert (context[2] == 0).all()
    torch.testing.assert_close(weights[:2].sum(dim=-1), torch.ones_like(weights[:2, :, 0]))
    torch.testing.assert_close(context[1], layer(x[1:2, :2]).context[0])
    (gradient,) = torch.autograd.grad(context.square().sum(), x)
    assert gradient.isfinite().all()
    assert (gradient[1, :2] != 0).any()
    assert (gradient[1, 2:] == 0).all()


@pytest.mark.parametrize("build", LAYERS)
def test_every_parameter_has_a_gradient(build: Callable[[], Pooling]) -> None:
    layer = build()
    layer(torch.randn(2, 11, 5)).context.square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.any()


@pytest.mark.parametrize("build", LAYERS)
@pytest.mark.parametrize("mask", [NO_MASK, Padding(torch.tensor([11, 3]))])
def test_cost(build: Callable[[], Pooling], mask: Padding, check_cost: Callable[..., None]) -> None:
    check_cost(build(), SequenceShape(batch_size=2, length=11), torch.randn(2, 11, 5), mask)


def test_other_masks_are_an_error() -> None:
    with pytest.raises(RegardError, match=r"Pooling .* mask Causal"):
        ContextPooling(model_dim=5)(torch.randn(2, 11, 5), Causal())


def test_wrong_number_of_lengths_is_an_error() -> None:
    layers: list[Any] = [
        ContextPooling(model_dim=4),
        Convolution(model_dim=4),
        Recurrent(model_dim=4, hidden_dim=3),
    ]
    for layer in layers:
        with pytest.raises(RegardError, match="Padding with 3 lengths for 2 rows"):
            layer(torch.randn(2, 5, 4), Padding([5, 4, 3]))


def test_frobenius_by_hand() -> None:
    apart = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    same = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    # AAᵀ = [[½, ¼], [¼, ⅜]]: ¼ on the diagonal, 2/16 beside it, and (5/8)².
    mixed = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]
    penalties = frobenius_penalty(torch.tensor([apart, same, mixed]))
    assert penalties.tolist() == pytest.approx([0.0, 2.0, 1 / 4 + 2 / 16 + 25 / 64])


def test_pairwise_kl_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
    there = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    back = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert pairwise_kl_penalty(weights).item() == pytest.approx(there + back)


def test_pairwise_kl_equals_the_elementwise_sum() -> None:
    weights = torch.randn(3, 5, 7, dtype=torch.float64).softmax(dim=-1)
    left, right = weights[:, :, None], weights[:, None]
    expected = (left * (left.log() - right.log())).sum(dim=(1, 2, 3))
    torch.testing.assert_close(pairwise_kl_penalty(weights), expected)


@pytest.mark.parametrize("penalty", [frobenius_penalty, pairwise_kl_penalty])
def test_padded_columns_add_nothing_and_gradients_are_finite(penalty: object) -> None:
    assert callable(penalty)
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    hidden = torch.cat([scores, torch.full((2, 3, 4), -math.inf, dtype=torch.float64)], dim=-1)
    padded = penalty(hidden.softmax(dim=-1))
    torch.testing.assert_close(padded, penalty(scores.softmax(dim=-1)))
    (gradient,) = torch.autograd.grad(padded.sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()


def test_pairwise_kl_of_disjoint_hops_is_large_but_finite() -> None:
    far = pairwise_kl_penalty(torch.eye(2)[None])
    assert far.isfinite().all()
    assert far.item() > 100


def test_penalties_of_a_row_of_padding() -> None:
    nothing = torch.zeros(1, 3, 5)
    assert pairwise_kl_penalty(nothing).item() == 0
    assert frobenius_penalty(nothing).item() == 3
