"""Positions over a grid: separable, relative by row and column, limits."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.layers.positions_2d import (
    POSITIONS_2D,
    Rotary2D,
    SinusoidalPositions2D,
    build_position_2d,
)
from regard.layers.rotary import Rotary

ROWS, COLUMNS = 5, 7
MODEL_DIM, HEAD_DIM = 24, 12
PATCHES = torch.arange(ROWS * COLUMNS)


@pytest.mark.parametrize("name", POSITIONS_2D)
def test_by_name(name: str) -> None:
    built = build_position_2d(name, model_dim=8, head_dim=4, grid=(2, 3), num_prefix=1)
    assert type(built) is POSITIONS_2D[name]
    if isinstance(built, Rotary2D):
        assert (built.columns, built.num_prefix) == (3, 1)
    else:
        assert built(torch.randn(2, 6, 8)).shape == (2, 6, 8)


def test_sinusoidal_is_separable() -> None:
    table = SinusoidalPositions2D(model_dim=MODEL_DIM, columns=COLUMNS).table(PATCHES)
    by_row, by_column = table.view(ROWS, COLUMNS, MODEL_DIM).chunk(2, dim=-1)
    axis = SinusoidalPositions(model_dim=MODEL_DIM // 2)
    assert torch.equal(by_row, axis.table(torch.arange(ROWS))[:, None].expand_as(by_row))
    assert torch.equal(by_column, axis.table(torch.arange(COLUMNS))[None].expand_as(by_column))
    assert torch.unique(table, dim=0).shape == table.shape


def test_sinusoidal_is_added() -> None:
    position = SinusoidalPositions2D(model_dim=MODEL_DIM, columns=COLUMNS)
    x = torch.randn(2, len(PATCHES), MODEL_DIM, dtype=torch.float64)
    torch.testing.assert_close(position(x) - x, position.table(PATCHES).expand_as(x))
    cost = position.cost(SequenceShape(batch_size=2, length=6))
    assert (cost.parameters, cost.matmul_flops) == (0, 0)


def rotated_products(num_prefix: int = 0) -> Tensor:
    """The dot product of one query and one key at every two positions."""
    torch.manual_seed(0)
    rotary = Rotary2D(head_dim=HEAD_DIM, columns=COLUMNS, num_prefix=num_prefix)
    length = num_prefix + len(PATCHES)
    query, key = torch.randn(2, 1, 1, 1, HEAD_DIM, dtype=torch.float64).expand(
        -1, -1, -1, length, -1
    )
    positions = torch.arange(length)
    return (rotary(query, positions) @ rotary(key, positions).transpose(-1, -2))[0, 0]


def test_rotary_depends_on_offsets_of_rows_and_columns_only() -> None:
    found: dict[tuple[int, int], list[float]] = {}
    products = rotated_products()
    for query in PATCHES.tolist():
        for key in PATCHES.tolist():
            offset = (query // COLUMNS - key // COLUMNS, query % COLUMNS - key % COLUMNS)
            found.setdefault(offset, []).append(float(products[query, key]))
    assert len(found) == (2 * ROWS - 1) * (2 * COLUMNS - 1)
    for values in found.values():
        assert values == pytest.approx([values[0]] * len(values), abs=1e-12)
    means = sorted(values[0] for values in found.values())
    assert min(b - a for a, b in pairwise(means)) > 1e-7


def test_a_prefix_is_not_rotated() -> None:
    heads = torch.randn(2, 3, 1 + len(PATCHES), HEAD_DIM)
    rotary = Rotary2D(head_dim=HEAD_DIM, columns=COLUMNS, num_prefix=1)
    rotated = rotary(heads, torch.arange(heads.shape[2]))
    torch.testing.assert_close(rotated[:, :, 0], heads[:, :, 0])
    plain = Rotary2D(head_dim=HEAD_DIM, columns=COLUMNS)(heads[:, :, 1:], PATCHES)
    torch.testing.assert_close(rotated[:, :, 1:], plain)
    torch.testing.assert_close(rotated_products(1)[1:, 1:], rotated_products())


def test_halves_of_a_head_are_rotated_by_row_and_by_column() -> None:
    heads = torch.randn(1, 2, len(PATCHES), HEAD_DIM, dtype=torch.float64)
    by_row, by_column = heads.chunk(2, dim=-1)
    one = Rotary(head_dim=HEAD_DIM // 2, base=100.0)
    expected = torch.cat([one(by_row, PATCHES // COLUMNS), one(by_column, PATCHES % COLUMNS)], -1)
    torch.testing.assert_close(
        Rotary2D(head_dim=HEAD_DIM, columns=COLUMNS)(heads, PATCHES), expected
    )


def test_errors() -> None:
    with pytest.raises(RegardError, match="model_dim=6: it must be a multiple of 4"):
        SinusoidalPositions2D(model_dim=6, columns=2)
    with pytest.raises(RegardError, match="head_dim=6: it must be a multiple of 4"):
        build_position_2d("rotary", model_dim=12, head_dim=6, grid=(2, 2))
    with pytest.raises(RegardError, match="Unknown position 'alibi'"):
        build_position_2d("alibi", model_dim=8, head_dim=4, grid=(2, 2))
    with pytest.raises(RegardError, match="head_dim=8: they must be equal"):
        MultiHead(model_dim=8, num_heads=2, position=Rotary2D(head_dim=8, columns=2))
    learned = build_position_2d("learned", model_dim=8, head_dim=4, grid=(2, 3))
    assert isinstance(learned, LearnedPositions)
    with pytest.raises(RegardError, match="max_length=6, but the input has 7 positions"):
        learned(torch.randn(1, 7, 8))
