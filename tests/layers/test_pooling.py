"""Both pooling layers: by hand, at padding, gradients, costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Padding
from regard.layers.cost import SequenceShape
from regard.layers.pooling import ContextPooling, StructuredPooling

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
def test_padding_has_no_weight_and_all_padding_is_zeros(build: Callable[[], Pooling]) -> None:
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
def test_every_parameter_is_trained(build: Callable[[], Pooling]) -> None:
    layer = build()
    layer(torch.randn(2, 11, 5)).context.square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.any()


@pytest.mark.parametrize("build", LAYERS)
@pytest.mark.parametrize("mask", [NO_MASK, Padding(torch.tensor([11, 3]))])
def test_cost(build: Callable[[], Pooling], mask: Padding, check_cost: Callable[..., None]) -> None:
    check_cost(build(), SequenceShape(batch_size=2, length=11), torch.randn(2, 11, 5), mask)


def test_other_masks_are_refused() -> None:
    with pytest.raises(RegardError, match="Pooling does not take the mask Causal"):
        ContextPooling(model_dim=5)(torch.randn(2, 11, 5), Causal())
