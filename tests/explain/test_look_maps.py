"""Packing of attention maps: tiles, exact maps, largest entries."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.records.look import MAX_TILE, TOP_ENTRIES, LayerMaps
from regard.explain.look_maps import largest_entries, pack_maps, packed_bytes, tile


def packed(values: torch.Tensor, *exact: str) -> LayerMaps:
    heads = [str(number + 1) for number in range(len(values))]
    names = {"layer": "encoder/0", "method": "weights", "queries": "input", "keys": "input"}
    return pack_maps(values, heads=heads, exact=exact, **names)


def test_exact_maps_are_those_of_the_model() -> None:
    values = torch.randn(2, 5, 40) * torch.tensor([1e-9, 1e6])[:, None, None]
    maps = packed(values, "1", "2")
    for number, head in enumerate(("1", "2")):
        # float16 fractions of the largest entry: also of values that float16 cannot hold.
        error = (torch.tensor(maps.matrix(head)) - values[number]).abs().max()
        assert error <= 3e-4 * values[number].abs().max()
    assert maps.limits == pytest.approx([float(each.abs().max()) for each in values])
    assert (maps.top_indices, maps.top_values) == ("", "")


def test_other_maps_keep_the_largest_entries_of_each_row() -> None:
    values = torch.randn(2, 70, 90)
    maps = packed(values, "2")
    found, whole = torch.tensor(maps.matrix("1")), values[0]
    kept = found != 0
    assert kept.sum(1).tolist() == [TOP_ENTRIES] * 70
    assert torch.allclose(found[kept], whole[kept], atol=2e-3)
    smallest = torch.where(kept, whole.abs(), torch.inf).min(1).values
    largest_left = torch.where(kept, 0.0, whole.abs()).max(1).values
    assert (smallest >= largest_left).all()
    assert (torch.tensor(maps.matrix("2")) - values[1]).abs().max() < 2e-3


def test_few_columns_are_padded() -> None:
    columns, values = largest_entries(torch.tensor([[0.1, -0.9, 0.0]]))
    assert columns.shape == values.shape == (1, TOP_ENTRIES)
    assert values[0, :3].tolist() == pytest.approx([-0.9, 0.1, 0.0])
    whole = torch.randn(1, 4, 3)
    assert (torch.tensor(packed(whole).matrix("1")) - whole[0]).abs().max() < 2e-3


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (65, 3), (200, 130), (1, 1000)])
def test_a_cell_of_a_tile_is_the_largest_of_its_block(rows: int, columns: int) -> None:
    values = torch.randn(rows, columns)
    found = tile(values)
    assert max(found.shape) <= MAX_TILE
    down, across = -(-rows // MAX_TILE), -(-columns // MAX_TILE)
    for row, column in ((0, 0), (found.shape[0] - 1, found.shape[1] - 1)):
        block = values[row * down : (row + 1) * down, column * across : (column + 1) * across]
        largest = block.flatten()[block.abs().argmax()]
        assert found[row, column] == largest
    assert found.abs().max() == values.abs().max()


def test_tiles_are_in_units_of_the_method() -> None:
    values = torch.randn(3, 100, 100) * 50
    maps = packed(values)
    for number, head in enumerate(("1", "2", "3")):
        expected = tile(values[number])
        assert (torch.tensor(maps.tile(head)) - expected).abs().max() <= maps.limits[number] / 254


def test_maps_of_zeros_and_of_infinities() -> None:
    assert packed(torch.zeros(1, 3, 3)).tile("1") == [[0.0] * 3] * 3
    with pytest.raises(RegardError, match=r"encoder/0 has a map with the limit inf"):
        packed(torch.full((1, 3, 3), torch.inf))
    with pytest.raises(RegardError, match="Unknown head of encoder/0 '4'"):
        packed(torch.zeros(1, 3, 3)).tile("4")


def test_predicted_bytes() -> None:
    values = torch.randn(2, 300, 200)
    for exact in ((), ("1", "2")):
        maps = packed(values, *exact)
        texts = (maps.tiles, maps.exact_values, maps.top_indices, maps.top_values)
        expected = packed_bytes(2, 300, 200, is_exact=bool(exact))
        assert sum(map(len, texts)) == pytest.approx(expected, rel=0.05)
