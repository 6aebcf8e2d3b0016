"""Axes of a chart: linear and logarithmic scales, ticks, and label placement without overlap.

A linear scale takes any finite number, a logarithmic one those above `SMALLEST`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ROUND_STEPS = (1.0, 2.0, 5.0, 10.0)
# Padding at both ends of a scale, as a fraction of its range.
PADDING = 0.06
# Relative differences below this are rounding.
ROUNDING = 1e-12
# Below it floats are subnormal, and a step between ticks may become 0.
SMALLEST = sys.float_info.min / sys.float_info.epsilon
LARGEST = sys.float_info.max


class Scale(NamedTuple):
    """Maps the domain [low, high] to positions from `start` to `end`, in either direction."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def position(self, value: float) -> float:
        """Position of a value."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        # Halved, since a difference of two floats may overflow.
        fraction = (value / 2 - low / 2) / (high / 2 - low / 2)
        return self.start + (self.end - self.start) * fraction

    def clamp(self, value: float) -> float:
        """The value, limited to the domain."""
        return min(max(value, self.low), self.high)

    def ticks(self, *, count: int = 5) -> list[float]:
        """About `count` round numbers within the domain.

        >>> Scale(7.9, 10.3, 0.0, 1.0).ticks()
        [8.0, 8.5, 9.0, 9.5, 10.0]
        >>> Scale(7.9, 83.0, 0.0, 1.0, logarithmic=True).ticks()
        [10.0, 20.0, 50.0]
        """
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            round_numbers = (
                float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)
            )
            found = [number for number in round_numbers if self.low <= number <= self.high]
            if len(found) > 2 * count:
                found = [tick for tick in found if math.log10(tick).is_integer()]
            if len(found) > 1:
                return found
        nearest = self.high / count - self.low / count
        power = 10.0 ** math.floor(math.log10(nearest))
        step = power * min(ROUND_STEPS, key=lambda each: abs(nearest / (power * each) - 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        decimals = max(0, 1 - math.floor(math.log10(step)))
        return [round(number * step, decimals) for number in range(first, last + 1)]


def fit_scale(
    values: Iterable[float],
    *,
    start: float,
    end: float,
    logarithmic: bool = False,
    padding: float = PADDING,
) -> Scale:
    """A scale that fits the values, padded on both sides; it starts at 0 or above if they all do.

    >>> fit_scale([3.0], start=0.0, end=1.0)[:2]
    (2.7, 3.3)
    """
    found = list(values)
    low, high = min(found), max(found)
    if logarithmic and low > 0:
        span = math.log(high) - math.log(low)
        reach = math.exp(span * padding) if span > ROUNDING else 1.1
        least = max(low / reach, min(low, SMALLEST))
        return Scale(least, min(high * reach, LARGEST), start, end, True)
    size = max(abs(low), abs(high))
    if high / 2 - low / 2 > max(size * ROUNDING, SMALLEST):
        reach = high * padding - low * padding
    else:
        reach = size * 0.1 if size > SMALLEST else 1.0
    lowest = 0.0 if low >= 0 else -LARGEST
    return Scale(max(low - reach, lowest), min(high + reach, LARGEST), start, end)


MAX_TICKS = 7


def thin_ticks(ticks: Sequence[float]) -> list[float]:
    """At most `MAX_TICKS` evenly chosen ticks, so that their labels do not overlap.

    >>> thin_ticks([1.0, 2.0, 3.0])
    [1.0, 2.0, 3.0]
    >>> thin_ticks([float(tick) for tick in range(10)])
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    return list(ticks[:: math.ceil(len(ticks) / MAX_TICKS)]) if ticks else []


def spread_labels(positions: Sequence[float], *, spacing: float, top: float) -> list[float]:
    """Move ascending label positions apart to at least `spacing`, as little as possible.

    Overlapping labels form a block around their mean, and touching blocks merge.

    >>> spread_labels([100.0, 101.0, 200.0], spacing=10.0, top=0.0)
    [95.5, 105.5, 200.0]
    """

    def first(block: list[float]) -> float:
        return max(sum(block) / len(block) - spacing * (len(block) - 1) / 2, top)

    blocks: list[list[float]] = []
    for position in positions:
        blocks.append([position])
        while len(blocks) > 1 and first(blocks[-1]) < first(blocks[-2]) + len(blocks[-2]) * spacing:
            last = blocks.pop()
            blocks[-1].extend(last)
    return [first(block) + index * spacing for block in blocks for index in range(len(block))]


CHAR_WIDTH, LINE_HEIGHT = 6.9, 14.0
# Gap between a point and its label.
LABEL_GAP = 9.0


class Box(NamedTuple):
    """A bounding box."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Whether the two boxes intersect."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Label(NamedTuple):
    """Position and `text-anchor` of a label: "start", "middle" or "end"."""

    x: float
    y: float
    anchor: str


def place_labels(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    *,
    within: Box,
    obstacles: Sequence[Box] = (),
    num_priority: int = 0,
) -> list[Label | None]:
    """A position for the label of each point that overlaps no point, label or obstacle; else None.

    Earlier labels are placed first. The first `num_priority` labels may be further from their point.

    >>> area = Box(0.0, 0.0, 100.0, 100.0)
    >>> place_labels([(50.0, 50.0), (52.0, 50.0)], ["one", "two"], within=area)[0]
    Label(x=59.0, y=54.0, anchor='start')
    """
    occupied = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points] + list(obstacles)
    found: list[Label | None] = []
    for index, ((x, y), text) in enumerate(zip(points, texts, strict=True)):
        width = CHAR_WIDTH * len(text)
        chosen = None
        for label, box in _candidates(x, y, width, far=index < num_priority):
            inside = (
                box.left >= within.left
                and box.right <= within.right
                and box.top >= within.top
                and box.bottom <= within.bottom
            )
            if inside and not any(box.overlaps(other) for other in occupied):
                chosen = label
                occupied.append(box)
                break
        found.append(chosen)
    return found


def _candidates(x: float, y: float, width: float, *, far: bool) -> list[tuple[Label, Box]]:
    candidates = []
    levels = (0.0, -LINE_HEIGHT, LINE_HEIGHT, -1.7 * LINE_HEIGHT, 1.7 * LINE_HEIGHT)
    for down in levels if far else levels[:3]:
        middle = y + down
        top, bottom = middle - LINE_HEIGHT / 2, middle + LINE_HEIGHT / 2
        gap = LABEL_GAP if not down else 0.0
        candidates += [
            (
                Label(x + LABEL_GAP, middle + 4, "start"),
                Box(x + gap, top, x + LABEL_GAP + width, bottom),
            ),
            (
                Label(x - LABEL_GAP, middle + 4, "end"),
                Box(x - LABEL_GAP - width, top, x - gap, bottom),
            ),
        ]
        if down:
            half = width / 2
            candidates.append(
                (Label(x, middle + 4, "middle"), Box(x - half, top, x + half, bottom))
            )
    return candidates
