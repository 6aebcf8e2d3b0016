"""Against torch row by row, padding, decoding, costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Padding
from regard.layers.cost import SequenceShape
from regard.layers.recurrent import CELLS, Recurrent

cells = pytest.mark.parametrize("cell", CELLS)
directions = pytest.mark.parametrize("bidirectional", [False, True])


@cells
@directions
def test_a_padded_row_is_what_it_would_be_alone(cell: str, bidirectional: bool) -> None:
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
def test_steps_are_the_whole_sequence(cell: str) -> None:
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


def test_both_ways_is_torchs_own() -> None:
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
    assert cost.sequential_steps == cost.longest_path == 11
    assert cost.state == state.hidden.numel() + state.memory.numel()


@cells
def test_each_position_waits_for_the_one_before(cell: str) -> None:
    layer, depths = Recurrent(model_dim=5, hidden_dim=7, cell=cell), []
    for length in (3, 5, 7):
        with Counter() as counter:
            layer(torch.randn(2, length, 5))
        depths.append(counter.depth)
    assert depths[2] - depths[1] == depths[1] - depths[0] >= 2


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(RegardError, match=r"Unknown recurrent cell 'lsmt'. Did you mean 'lstm'"):
        Recurrent(model_dim=5, hidden_dim=7, cell="lsmt")
    both = Recurrent(model_dim=5, hidden_dim=7, bidirectional=True)
    with pytest.raises(RegardError, match="bidirectional=True has no step"):
        both.step(both.start(2), torch.randn(2, 1, 5))
    with pytest.raises(RegardError, match="Recurrent does not take the mask Causal"):
        both(torch.randn(2, 3, 5), Causal())
