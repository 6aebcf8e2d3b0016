"""Recurrent layers: parity with torch, padding, decoding, costs, the bidirectional layer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.factories.declared_costs import assert_declared_cost
from torch import Tensor

from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Padding
from regard.layers.cost import SequenceShape
from regard.layers.recurrent import CELLS, BidirectionalRecurrent, Recurrent

cells = pytest.mark.parametrize("cell", CELLS)
directions = pytest.mark.parametrize("bidirectional", [False, True])


@cells
@directions
def test_a_padded_row_equals_the_row_alone(cell: str, bidirectional: bool) -> None:
    layer = Recurrent(model_dim=5, hidden_dim=7, cell=cell, bidirectional=bidirectional)
    x = torch.randn(3, 11, 5, requires_grad=True)
    output, state = layer(x, Padding(torch.tensor([4, 11, 0])))
    alone, alone_state = layer(x[:1, :4])
    torch.testing.assert_close(output[0, :4], alone[0])
    torch.testing.assert_close(state.hidden[0], alone_state.hidden[0])
    torch.testing.assert_close(output[1], layer(x[1:2]).output[0])
    assert (output[0, 4:] == 0).all()
    assert (output[2] == 0).all()
    assert (state.hidden[2] == 0).all()
    assert state.position.tolist() == [4, 11, 0]
    (gradient,) = torch.autograd.grad(output.sum(), x)
    assert (gradient[2] == 0).all()
    assert (gradient[0, :4] != 0).all()


@cells
def test_steps_equal_forward(cell: str) -> None:
    layer, x = Recurrent(model_dim=5, hidden_dim=7, cell=cell), torch.randn(2, 11, 5)
    whole, end = layer(x)
    state = layer.start(2)
    rows = []
    for piece in x.split_with_sizes([1, 1, 4, 5], dim=1):
        output, state = layer.step(state, piece)
        rows.append(output)
    torch.testing.assert_close(torch.cat(rows, dim=1), whole)
    torch.testing.assert_close(state.hidden, end.hidden)
    torch.testing.assert_close(state.memory, end.memory)
    swapped = state.select(torch.tensor([1, 0, 0]))
    torch.testing.assert_close(swapped.hidden[2], state.hidden[0])
    assert state.position.tolist() == [11, 11]


def test_bidirectional_equals_torch() -> None:
    layer, x = Recurrent(model_dim=5, hidden_dim=7, bidirectional=True), torch.randn(2, 11, 5)
    expected, (hidden, memory) = layer.layer(x)
    output, state = layer(x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(state.hidden, hidden.transpose(0, 1))
    torch.testing.assert_close(state.memory, memory.transpose(0, 1))


@cells
@directions
@pytest.mark.parametrize("mask", [NO_MASK, Padding(torch.tensor([11, 11]))])
def test_cost(
    cell: str, bidirectional: bool, mask: Padding, check_cost: Callable[..., None]
) -> None:
    layer = Recurrent(model_dim=5, hidden_dim=7, cell=cell, bidirectional=bidirectional)
    shape, x = SequenceShape(batch_size=2, length=11), torch.randn(2, 11, 5)
    check_cost(layer, shape, x, mask)
    _, state = layer(x, mask)
    cost = layer.cost(shape)
    assert cost.sequential_steps == cost.max_path_length == 11
    assert cost.state == state.hidden.numel() + state.memory.numel()


@cells
def test_steps_are_sequential(cell: str) -> None:
    layer, depths = Recurrent(model_dim=5, hidden_dim=7, cell=cell), []
    for length in (3, 5, 7):
        with Counter() as counter:
            layer(torch.randn(2, length, 5))
        depths.append(counter.depth)
    assert depths[2] - depths[1] == depths[1] - depths[0] >= 2


def test_invalid_arguments() -> None:
    with pytest.raises(RegardError, match=r"'lsmt'. Did you mean 'lstm'"):
        Recurrent(model_dim=5, hidden_dim=7, cell="lsmt")
    bidirectional = Recurrent(model_dim=5, hidden_dim=7, bidirectional=True)
    with pytest.raises(RegardError, match="bidirectional=True"):
        bidirectional.step(bidirectional.start(2), torch.randn(2, 1, 5))
    with pytest.raises(RegardError, match=r"Recurrent .* mask Causal"):
        bidirectional(torch.randn(2, 3, 5), Causal())


LENGTHS = torch.tensor([7, 1, 4])


def packed_twin(layer: BidirectionalRecurrent, cell: str) -> Recurrent:
    """torch's bidirectional layer on a packed sequence, with the same weights."""
    twin = Recurrent(model_dim=5, hidden_dim=3, cell=cell, bidirectional=True).double()
    with torch.no_grad():
        for suffix, part in (("", layer.onward), ("_reverse", layer.backward_layer)):
            for name, weight in part.layer.named_parameters():
                getattr(twin.layer, name + suffix).copy_(weight)
    return twin


@pytest.mark.parametrize("cell", CELLS)
def test_bidirectional_equals_the_packed_layer(cell: str) -> None:
    torch.manual_seed(0)
    layer = BidirectionalRecurrent(model_dim=5, hidden_dim=3, cell=cell).double()
    x = torch.randn(3, 7, 5, dtype=torch.float64, requires_grad=True)
    expected = packed_twin(layer, cell)(x, Padding(LENGTHS)).output
    output = layer(x, LENGTHS)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    (own,) = torch.autograd.grad(output.square().sum(), x)
    (other,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(own, other, rtol=0, atol=1e-12)


def test_padding_changes_nothing_and_gives_zeros() -> None:
    torch.manual_seed(0)
    layer = BidirectionalRecurrent(model_dim=5, hidden_dim=3).double()
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    changed = x.masked_fill((torch.arange(7) >= LENGTHS[:, None])[:, :, None], 1e6)
    torch.testing.assert_close(layer(changed, LENGTHS), layer(x, LENGTHS), rtol=0, atol=0)
    assert not layer(x, LENGTHS)[2, 4:].any()


@pytest.mark.parametrize("cell", CELLS)
def test_bidirectional_cost(cell: str) -> None:
    torch.manual_seed(0)
    layer = BidirectionalRecurrent(model_dim=25, hidden_dim=23, cell=cell)
    x = torch.randn(2, 7, 25, requires_grad=True)

    def forward() -> Tensor:
        return layer(x, torch.tensor([7, 7]))

    cost = layer.cost(SequenceShape(batch_size=2, length=7))
    assert_declared_cost(
        cost,
        parameters=sum(parameter.numel() for parameter in layer.parameters()),
        forward=forward,
        where=cell,
    )
    assert cost.sequential_steps >= cost.max_path_length == 7
