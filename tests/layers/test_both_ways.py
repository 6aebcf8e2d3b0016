"""Reading both ways without packing: equal to torch's packed layer, blind to padding."""

from __future__ import annotations

import pytest
import torch
from tests.factories.declared_costs import require_declared
from torch import Tensor

from regard.core.masks import Padding
from regard.layers.cost import SequenceShape
from regard.layers.recurrent import CELLS, BothWays, Recurrent

LENGTHS = torch.tensor([7, 1, 4])


def packed_twin(layer: BothWays, cell: str) -> Recurrent:
    """torch's own bidirectional layer, which `Recurrent` packs, with the same weights."""
    twin = Recurrent(model_dim=5, hidden_dim=3, cell=cell, bidirectional=True).double()
    with torch.no_grad():
        for suffix, part in (("", layer.onward), ("_reverse", layer.backward_layer)):
            for name, weight in part.layer.named_parameters():
                getattr(twin.layer, name + suffix).copy_(weight)
    return twin


@pytest.mark.parametrize("cell", CELLS)
def test_it_is_the_packed_layer(cell: str) -> None:
    torch.manual_seed(0)
    layer = BothWays(model_dim=5, hidden_dim=3, cell=cell).double()
    x = torch.randn(3, 7, 5, dtype=torch.float64, requires_grad=True)
    expected = packed_twin(layer, cell)(x, Padding(LENGTHS)).output
    output = layer(x, LENGTHS)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    (own,) = torch.autograd.grad(output.square().sum(), x)
    (other,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(own, other, rtol=0, atol=1e-12)


def test_padding_has_no_say_and_no_output() -> None:
    torch.manual_seed(0)
    layer = BothWays(model_dim=5, hidden_dim=3).double()
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    changed = x.masked_fill((torch.arange(7) >= LENGTHS[:, None])[:, :, None], 1e6)
    torch.testing.assert_close(layer(changed, LENGTHS), layer(x, LENGTHS), rtol=0, atol=0)
    assert not layer(x, LENGTHS)[2, 4:].any()


@pytest.mark.parametrize("cell", CELLS)
def test_cost(cell: str) -> None:
    torch.manual_seed(0)
    layer = BothWays(model_dim=25, hidden_dim=23, cell=cell)
    x = torch.randn(2, 7, 25, requires_grad=True)

    def forward() -> Tensor:
        return layer(x, torch.tensor([7, 7]))

    cost = layer.cost(SequenceShape(batch_size=2, length=7))
    require_declared(
        cost,
        parameters=sum(parameter.numel() for parameter in layer.parameters()),
        forward=forward,
        where=cell,
    )
    assert (cost.sequential_steps, cost.longest_path) == (7, 7)
