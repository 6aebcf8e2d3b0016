"""A scale has a place for every number it was made around, however near or far they lie."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from regard.views.charts.axes import SMALLEST, Scale, scale_around

LARGEST = 1.7e308


def require_useful(scale: Scale, values: list[float]) -> None:
    assert scale.low < scale.high
    for value in values:
        assert scale.low <= value <= scale.high
        assert -1e-9 <= scale.place(value) <= 1 + 1e-9
    ticks = scale.ticks()
    assert scale.logarithmic or len(ticks) <= 12
    assert all(math.isfinite(scale.place(tick)) for tick in ticks)
    assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 1.0 + 2.0**-52],
        [1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52],
        [-3.0, -3.0 + 2.0**-51],
        [2e-16, 3e-16],  # both would be 0 to twelve places
        [0.0, 1e-13],
        [0.0, 5e-324],
        [1e-320],
        [1e16, 1e16 + 2],
        [-LARGEST, LARGEST],
        [LARGEST],
        [2e-292, 1.3e240],  # air on both sides would reach 0
    ],
)
@pytest.mark.parametrize("logarithmic", [False, True])
def test_numbers_that_hardly_differ_or_hardly_fit_have_a_scale(
    values: list[float], logarithmic: bool
) -> None:
    if logarithmic and min(values) <= SMALLEST:
        return
    require_useful(scale_around(values, start=0.0, end=1.0, logarithmic=logarithmic), values)


def test_what_differs_by_rounding_is_drawn_as_one_number_with_room_around_it() -> None:
    scale = scale_around([1.0, 1.0 + 2.0**-52], start=0.0, end=1.0)
    assert scale[:2] == pytest.approx((0.9, 1.1))
    assert scale.place(1.0) == pytest.approx(0.5)


def test_tiny_numbers_that_differ_stay_apart() -> None:
    scale = scale_around([2e-16, 3e-16], start=0.0, end=1.0, air=0.0)
    assert (scale.place(2e-16), scale.place(3e-16)) == (0.0, 1.0)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_any_numbers_have_a_scale(values: list[float]) -> None:
    require_useful(scale_around(values, start=0.0, end=1.0), values)


@given(st.lists(st.floats(min_value=2 * SMALLEST, max_value=LARGEST), min_size=1, max_size=5))
def test_any_numbers_above_zero_have_a_logarithmic_scale(values: list[float]) -> None:
    require_useful(scale_around(values, start=0.0, end=1.0, logarithmic=True), values)
