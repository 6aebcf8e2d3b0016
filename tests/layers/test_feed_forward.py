"""Feed-forward: by hand, activations, dropout, cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import ACTIVATIONS, FeedForward


def test_by_hand() -> None:
    layer = FeedForward(model_dim=1, hidden_dim=2)
    with torch.no_grad():
        layer.widen.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        layer.widen.bias.copy_(torch.tensor([0.0, 2.0]))
        layer.narrow.weight.copy_(torch.tensor([[10.0, 100.0]]))
        layer.narrow.bias.copy_(torch.tensor([5.0]))
    # 1 → relu(1, 1) → 10 + 100 + 5;  3 → relu(3, −1) → 30 + 5
    assert layer(torch.tensor([[[1.0], [3.0]]])).flatten().tolist() == [115.0, 35.0]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_cost(activation: str, bias: bool, check_cost: Callable[..., None]) -> None:
    layer = FeedForward(model_dim=5, hidden_dim=11, activation=activation, bias=bias)
    check_cost(layer, SequenceShape(batch_size=2, length=7), torch.randn(2, 7, 5))


def test_default_hidden_dim() -> None:
    assert FeedForward(model_dim=5).widen.out_features == 20


def test_dropout_is_on_hidden_and_output() -> None:
    layer, kept = FeedForward(model_dim=5, activation="gelu", dropout=0.9), []
    layer.narrow.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0] != 0))
    kept.append(layer(torch.randn(20, 30, 5)) != 0)
    for share in (entries.float().mean().item() for entries in kept):
        assert share == pytest.approx(0.1, abs=0.03)
    layer.eval()
    assert (layer(torch.randn(2, 7, 5)) != 0).any()


def test_unknown_activation() -> None:
    with pytest.raises(RegardError, match=r"'gelo'. Did you mean 'gelu'"):
        FeedForward(model_dim=5, activation="gelo")
