"""Log-log interpolation of times, and extrapolation beyond the grid."""

from __future__ import annotations

import math

import pytest

from regard.costs.operator_benchmarks import LogTable

AXES = ((1, 4, 16), (2, 8))


def table(max_work: float = math.inf) -> LogTable:
    return LogTable.from_measurements(
        AXES, lambda sizes: 1e-6 * math.prod(sizes), work=math.prod, max_work=max_work
    )


@pytest.mark.parametrize("sizes", [(1, 2), (4, 8), (2, 4), (16, 8), (32, 8), (64, 80)])
def test_a_power_law_is_exact_everywhere(sizes: tuple[int, int]) -> None:
    assert table().at(sizes) == pytest.approx(1e-6 * math.prod(sizes))


def test_below_the_grid_the_time_is_constant() -> None:
    flat = LogTable(((4, 16),), {(4,): 1.0, (16,): 2.0})
    assert flat.at((1,)) == flat.at((4,)) == pytest.approx(1.0)
    assert flat.at((8,)) == pytest.approx(math.sqrt(2))


def test_points_too_large_to_measure_are_extrapolated() -> None:
    from_measurements = []

    def measure(sizes: tuple[int, ...]) -> float:
        from_measurements.append(sizes)
        return 1e-6 * math.prod(sizes)

    filled = LogTable.from_measurements(AXES, measure, work=math.prod, max_work=32.0)
    assert (16, 8) not in from_measurements
    assert filled.seconds == pytest.approx(table().seconds)


def test_beyond_the_grid_time_grows_with_the_work() -> None:
    squares = LogTable.from_measurements(
        ((1, 4), (2, 8)),
        lambda sizes: 1e-6 * sizes[0] * sizes[1] ** 2,
        work=lambda sizes: float(sizes[0] * sizes[1] ** 2),
        max_work=math.inf,
    )
    assert squares.at((8, 32)) == pytest.approx(1e-6 * 8 * 32**2)


def test_json_round_trip() -> None:
    assert LogTable.from_json(table().as_json()) == table()
