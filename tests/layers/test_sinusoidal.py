"""The vectors by hand, the shift matrix, and where the sequence starts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape
from regard.layers.positions import SinusoidalPositions


def test_pairs_of_sine_and_cosine_by_hand() -> None:
    table = SinusoidalPositions(model_dim=4).table(torch.tensor([0, 3]))
    # The second wave is 10000^(2/4) = 100 times slower.
    third = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    expected = torch.tensor([[0, 1, 0, 1], third], dtype=torch.float64)
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("shift", [-5, 0, 1, 101])
def test_the_shift_matrix_moves_every_position_alike_and_is_orthogonal(shift: int) -> None:
    positions = SinusoidalPositions(model_dim=14)
    matrix = positions.shift_matrix(shift)
    places = torch.tensor([5, 17, 1009])
    torch.testing.assert_close(
        positions.table(places) @ matrix.T, positions.table(places + shift), rtol=0, atol=1e-12
    )
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(14, dtype=torch.float64))


def test_shifts_add_up() -> None:
    positions = SinusoidalPositions(model_dim=6)
    twice = positions.shift_matrix(2) @ positions.shift_matrix(5)
    torch.testing.assert_close(twice, positions.shift_matrix(7))


def test_a_start_is_where_the_whole_sequence_would_be() -> None:
    positions, x = SinusoidalPositions(model_dim=6), torch.randn(2, 7, 6)
    whole = positions(x)
    torch.testing.assert_close(positions(x[:, 3:], start=3), whole[:, 3:])
    rows = positions(x[:, 3:5], start=torch.tensor([3, 0]))
    torch.testing.assert_close(rows[0], whole[0, 3:5])
    torch.testing.assert_close(rows[1], positions(x[:, 3:5])[1])


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(RegardError, match=r"in pairs, but the width is 7. Choose an even width"):
        SinusoidalPositions(model_dim=7)


def test_cost(check_cost: Callable[..., None]) -> None:
    shape = SequenceShape(batch_size=3, length=7)
    check_cost(SinusoidalPositions(model_dim=10), shape, torch.randn(3, 7, 10))
