"""Convolution: by hand, receptive field, padding, stride and cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import Causal, Padding
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape


@pytest.mark.parametrize(
    ("causal", "expected"), [(False, [210.0, 321.0, 32.0]), (True, [100.0, 210.0, 321.0])]
)
def test_by_hand(causal: bool, expected: list[float]) -> None:
    layer = Convolution(model_dim=1, width=3, causal=causal, bias=False)
    with torch.no_grad():
        layer.linear.weight.copy_(torch.tensor([[[1.0, 10.0, 100.0]]]))
    assert layer(torch.tensor([[[1.0], [2.0], [3.0]]])).flatten().tolist() == expected


@pytest.mark.parametrize(("width", "causal"), [(3, False), (5, False), (2, True), (4, True)])
def test_receptive_field(width: int, causal: bool) -> None:
    layer, x = Convolution(model_dim=5, width=width, causal=causal), torch.randn(1, 13, 5)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x)[0, 6].sum(), x)
    seen = gradient[0].abs().sum(dim=-1).nonzero().flatten().tolist()
    ahead = 0 if causal else layer.reach
    assert seen == list(range(6 - layer.reach, 6 + ahead + 1))


def test_padding_counts_as_zeros() -> None:
    layer, x = Convolution(model_dim=5, output_dim=3, width=5), torch.randn(2, 11, 5)
    x[1, 7:] = float("inf")
    output = layer(x, Padding(torch.tensor([11, 7])))
    torch.testing.assert_close(output[1, :7], layer(x[1:2, :7])[0])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("length", [11, 12])
def test_stride_cost_and_lengths(
    causal: bool, stride: int, length: int, check_cost: Callable[..., None]
) -> None:
    layer = Convolution(model_dim=5, output_dim=7, width=3, causal=causal, stride=stride)
    x = torch.randn(2, length, 5)
    check_cost(layer, SequenceShape(batch_size=2, length=length), x)
    assert layer.output_lengths(torch.tensor([length])).tolist() == [layer(x).shape[1]]


def test_max_path_length() -> None:
    shape = SequenceShape(length=12)
    layer = Convolution(model_dim=1, width=5)
    assert layer.cost(shape).max_path_length == 6  # ⌈11 / 2⌉
    x = torch.randn(1, 12, 1, requires_grad=True)
    output, met = x, []
    for _ in range(6):
        output = layer(output)
        (gradient,) = torch.autograd.grad(output[0, 11, 0], x, retain_graph=True)
        met.append(bool(gradient[0, 0] != 0))
    assert met == [False] * 5 + [True]
    assert Convolution(model_dim=1, width=5, causal=True).cost(shape).max_path_length == 3


@pytest.mark.parametrize(("width", "causal"), [(1, True), (1, False), (4, False)])
def test_invalid_widths(width: int, causal: bool) -> None:
    with pytest.raises(RegardError, match=f"width={width}, causal={causal}"):
        Convolution(model_dim=5, width=width, causal=causal)


def test_other_masks_are_an_error() -> None:
    with pytest.raises(RegardError, match=r"Convolution .* mask Causal"):
        Convolution(model_dim=5)(torch.randn(2, 11, 5), Causal())
