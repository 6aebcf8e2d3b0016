"""Scales, ticks and label placement."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from regard.views.charts.axes import (
    CHAR_WIDTH,
    LINE_HEIGHT,
    SMALLEST,
    Box,
    Scale,
    fit_scale,
    place_labels,
)
from regard.views.charts.intervals import interval_scale

LARGEST = 1.7e308


def assert_useful(scale: Scale, values: list[float]) -> None:
    assert scale.low < scale.high
    for value in values:
        assert scale.low <= value <= scale.high
        assert -1e-9 <= scale.position(value) <= 1 + 1e-9
    ticks = scale.ticks()
    assert scale.logarithmic or len(ticks) <= 12
    assert all(math.isfinite(scale.position(tick)) for tick in ticks)
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
def test_scales_of_extreme_numbers(values: list[float], logarithmic: bool) -> None:
    if logarithmic and min(values) <= SMALLEST:
        return
    assert_useful(fit_scale(values, start=0.0, end=1.0, logarithmic=logarithmic), values)


def test_rounding_differences_count_as_one_number() -> None:
    scale = fit_scale([1.0, 1.0 + 2.0**-52], start=0.0, end=1.0)
    assert scale[:2] == pytest.approx((0.9, 1.1))
    assert scale.position(1.0) == pytest.approx(0.5)


def test_tiny_numbers_have_a_scale() -> None:
    scale = fit_scale([2e-16, 3e-16], start=0.0, end=1.0, padding=0.0)
    assert (scale.position(2e-16), scale.position(3e-16)) == (0.0, 1.0)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_any_numbers_have_a_linear_scale(values: list[float]) -> None:
    assert_useful(fit_scale(values, start=0.0, end=1.0), values)


@given(st.lists(st.floats(min_value=2 * SMALLEST, max_value=LARGEST), min_size=1, max_size=5))
def test_any_numbers_above_zero_have_a_logarithmic_scale(values: list[float]) -> None:
    assert_useful(fit_scale(values, start=0.0, end=1.0, logarithmic=True), values)


@pytest.mark.parametrize(
    ("low", "high", "logarithmic"),
    [
        (0.0, 1.0, False),
        (7.93, 8.61, False),
        (-3.0, 1e4, False),
        (0.02, 900.0, True),
        (5.0, 6.0, True),
    ],
)
def test_ticks_are_few_round_and_within(low: float, high: float, logarithmic: bool) -> None:
    scale = Scale(low, high, 0.0, 100.0, logarithmic)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 10
    assert all(low <= tick <= high for tick in ticks)
    assert all(0 <= scale.position(tick) <= 100 for tick in ticks)
    assert all(float(f"{tick:.2g}") == tick for tick in ticks)


def test_scale_of_one_number_is_padded() -> None:
    for only in (0.0, 5.0, -2.0):
        scale = fit_scale([only], start=0.0, end=1.0)
        assert scale.low <= only < scale.high
        assert scale.ticks()


def test_wide_interval_is_clipped() -> None:
    scale = interval_scale([8.0, 9.0], [(-50.0, 70.0)])
    assert scale is not None
    assert scale.high - scale.low < 3
    assert scale.clamp(70.0) == scale.high


def test_labels_overlap_no_point_and_no_label() -> None:
    points = [(100.0 + 30 * number, 100.0 + 5 * number) for number in range(8)]
    texts = [f"name {number}" for number in range(8)]
    room = Box(0.0, 0.0, 400.0, 300.0)
    placed = place_labels(points, texts, within=room, num_priority=2)
    assert placed[0] is not None
    assert sum(label is not None for label in placed) >= 4
    boxes = []
    for label, text in zip(placed, texts, strict=True):
        if label is None:
            continue
        width = CHAR_WIDTH * len(text)
        left = {"start": label.x, "end": label.x - width, "middle": label.x - width / 2}
        begin = left[label.anchor]
        boxes.append(
            Box(begin, label.y - 4 - LINE_HEIGHT / 2, begin + width, label.y - 4 + LINE_HEIGHT / 2)
        )
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
    assert not any(
        box.overlaps(Box(x - 2, y - 2, x + 2, y + 2)) for box in boxes for x, y in points
    )
