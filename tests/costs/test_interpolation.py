"""Tables of times: exact on the grid, straight in logarithms between, growing with the work beyond."""

from __future__ import annotations

import math

import pytest

from regard.costs.interpolation import LogTable

AXES = ((1, 4, 16), (2, 8))


def table(most: float = math.inf) -> LogTable:
    return LogTable.measured(AXES, lambda sizes: 1e-6 * math.prod(sizes), work=math.prod, most=most)


@pytest.mark.parametrize("sizes", [(1, 2), (4, 8), (2, 4), (16, 8), (32, 8), (64, 80)])
def test_a_power_law_is_met_everywhere(sizes: tuple[int, int]) -> None:
    assert table().at(sizes) == pytest.approx(1e-6 * math.prod(sizes))


def test_below_the_grid_nothing_gets_cheaper() -> None:
    floor = LogTable(((4, 16),), {(4,): 1.0, (16,): 2.0})
    assert floor.at((1,)) == floor.at((4,)) == pytest.approx(1.0)
    assert floor.at((8,)) == pytest.approx(math.sqrt(2))


def test_points_too_large_to_measure_are_scaled_from_smaller_ones() -> None:
    measured = []

    def measure(sizes: tuple[int, ...]) -> float:
        measured.append(sizes)
        return 1e-6 * math.prod(sizes)

    filled = LogTable.measured(AXES, measure, work=math.prod, most=32.0)
    assert (16, 8) not in measured
    assert filled.seconds == pytest.approx(table().seconds)


def test_beyond_the_grid_it_grows_as_the_work_does() -> None:
    squares = LogTable.measured(
        ((1, 4), (2, 8)),
        lambda sizes: 1e-6 * sizes[0] * sizes[1] ** 2,
        work=lambda sizes: float(sizes[0] * sizes[1] ** 2),
        most=math.inf,
    )
    assert squares.at((8, 32)) == pytest.approx(1e-6 * 8 * 32**2)


def test_json_and_back() -> None:
    assert LogTable.from_json(table().as_json()) == table()
