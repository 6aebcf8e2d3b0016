"""Dropout on attention weights: expectation, evaluation mode, seeds, gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask, Padding, Window
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS

LENGTH, MODEL_DIM = 5, 8
PADDED = Causal() & Padding(torch.tensor([5, 3]))


def attention(name: str, **options: Any) -> MultiHead:
    """The same parameters for every option, in float64."""
    torch.manual_seed(3)
    options |= {"num_heads": 2, "num_kv_heads": 1, "max_length": LENGTH}
    return MultiHead(model_dim=MODEL_DIM, mechanism=name, **options).double()


def draw(rows: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, LENGTH, MODEL_DIM, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("mask", [Causal(), PADDED], ids=str)
def test_the_mean_of_many_draws_is_the_output_without(name: str, mask: Mask) -> None:
    plain, dropped = attention(name), attention(name, attention_dropout=0.25)
    x, draws = draw(1)[:, :LENGTH].expand(2, -1, -1), 2000
    many = Mask(causal=True) & (
        NO_MASK if mask.lengths is None else Padding(mask.lengths.repeat(draws))
    )
    outputs = dropped(x.repeat(draws, 1, 1), mask=many).unflatten(0, (draws, 2))
    assert not torch.equal(outputs[0], outputs[1])
    error = outputs.std(dim=0) / draws**0.5
    difference = (outputs.mean(dim=0) - plain(x, mask=mask)).abs()
    assert (difference <= 5 * error + 1e-9).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_evaluation_mode_and_zero_are_unchanged(name: str) -> None:
    plain, zero, dropped = (attention(name, attention_dropout=p) for p in (0.0, 0.0, 0.5))
    x = draw()
    expected = plain(x, mask=PADDED)
    assert torch.equal(zero(x, mask=PADDED), expected)
    assert torch.equal(dropped.eval()(x, mask=PADDED), expected)
    assert torch.equal(dropped.train().weights(x, mask=PADDED), plain.weights(x, mask=PADDED))


@pytest.mark.parametrize("name", ["scaled_dot", "window", "additive", "elu", "delta"])
def test_a_seed_reproduces_the_draw(name: str) -> None:
    layer, x = attention(name, attention_dropout=0.5), draw().requires_grad_()
    outputs = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        outputs.append(layer(x, mask=Causal()))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    outputs[0].square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("mask", [NO_MASK, Window(2), Causal() & Window(1)], ids=str)
def test_a_dropped_weight_is_zero_and_the_others_are_scaled(mask: Mask) -> None:
    mechanism = attention("scaled_dot").mechanism
    query = torch.randn(1, 1, LENGTH, 4)
    one_hot = torch.eye(LENGTH)[None, None]
    kept = mechanism(query, query, one_hot, mask, dropout=0.5)
    weights = mechanism.weights(query, query, mask)
    torch.testing.assert_close(kept, torch.where(kept == 0, 0.0, 2 * weights))
    assert (kept == 0).sum() > (weights == 0).sum()


def test_an_invalid_probability() -> None:
    with pytest.raises(RegardError, match=r"attention_dropout=1\.0"):
        attention("dot", attention_dropout=1.0)
