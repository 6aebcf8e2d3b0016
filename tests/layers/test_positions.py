"""Position encodings: the table, sinusoidal, learned and no positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape
from regard.layers.names import POSITIONS
from regard.layers.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    build_position,
)

SIZES = {"model_dim": 22, "head_dim": 10, "num_heads": 3}


@pytest.mark.parametrize("name", POSITIONS)
def test_every_position_is_built(name: str) -> None:
    built = build_position(name, **SIZES, max_length=7)
    assert type(built).__name__ == POSITIONS[name].class_name
    acts = {"tokens": "forward", "heads": "rotation", "scores": "values"}
    assert hasattr(built, acts[POSITIONS[name].acts_on])


def test_options_reach_the_constructor() -> None:
    assert build_position("rotary", **SIZES, base=500.0).base == 500.0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rotery", {}, "'rotery'. Did you mean 'rotary'"),
        ("rotary", {"bass": 5}, "'bass' of position 'rotary'. Did you mean 'base'"),
        ("none", {"base": 5}, "'none' has no options"),
    ],
)
def test_unknown_names(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        build_position(name, **SIZES, **options)


def test_sinusoidal_by_hand() -> None:
    table = SinusoidalPositions(model_dim=4).table(torch.tensor([0, 3]))
    # The second wave is 10000^(2/4) = 100 times slower.
    third = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    expected = torch.tensor([[0, 1, 0, 1], third], dtype=torch.float64)
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("shift", [-5, 0, 1, 101])
def test_the_shift_matrix_is_orthogonal_and_shifts_every_position(shift: int) -> None:
    positions = SinusoidalPositions(model_dim=14)
    matrix = positions.shift_matrix(shift)
    at = torch.tensor([5, 17, 1009])
    torch.testing.assert_close(
        positions.table(at) @ matrix.T, positions.table(at + shift), rtol=0, atol=1e-12
    )
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(14, dtype=torch.float64))


def test_shifts_add_up() -> None:
    positions = SinusoidalPositions(model_dim=6)
    twice = positions.shift_matrix(2) @ positions.shift_matrix(5)
    torch.testing.assert_close(twice, positions.shift_matrix(7))


def test_sinusoidal_start() -> None:
    positions, x = SinusoidalPositions(model_dim=6), torch.randn(2, 7, 6)
    whole = positions(x)
    torch.testing.assert_close(positions(x[:, 3:], start=3), whole[:, 3:])
    rows = positions(x[:, 3:5], start=torch.tensor([3, 0]))
    torch.testing.assert_close(rows[0], whole[0, 3:5])
    torch.testing.assert_close(rows[1], positions(x[:, 3:5])[1])


def test_an_odd_width_is_an_error() -> None:
    with pytest.raises(RegardError, match="model_dim=7"):
        SinusoidalPositions(model_dim=7)


def test_sinusoidal_cost(check_cost: Callable[..., None]) -> None:
    shape = SequenceShape(batch_size=3, length=7)
    check_cost(SinusoidalPositions(model_dim=10), shape, torch.randn(3, 7, 10))


def test_learned_start() -> None:
    positions, x = LearnedPositions(model_dim=5, max_length=11), torch.randn(2, 3, 5)
    table = positions.embedding.weight
    torch.testing.assert_close(positions(x, start=4), x + table[4:7])
    rows = positions(x, start=torch.tensor([8, 0]))
    torch.testing.assert_close(rows, x + torch.stack([table[8:11], table[0:3]]))


@pytest.mark.parametrize("start", [9, torch.tensor([1, 9])])
def test_a_longer_sequence_than_max_length_is_an_error(start: int | torch.Tensor) -> None:
    positions = LearnedPositions(model_dim=5, max_length=11)
    with pytest.raises(RegardError, match=r"max_length=11.* 12 "):
        positions(torch.randn(2, 3, 5), start=start)


def test_learned_cost(check_cost: Callable[..., None]) -> None:
    positions = LearnedPositions(model_dim=5, max_length=11)
    check_cost(positions, SequenceShape(batch_size=2, length=3), torch.randn(2, 3, 5))


def test_no_positions_is_the_identity(check_cost: Callable[..., None]) -> None:
    x = torch.randn(2, 3, 5)
    assert NoPositions()(x, start=7) is x
    check_cost(NoPositions(), SequenceShape(batch_size=2, length=3), x)
