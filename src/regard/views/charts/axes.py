"""Axes of a chart: linear and logarithmic scales, ticks, and label placement without overlap.

A linear scale takes any finite number, a logarithmic one those above `SMALLEST`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regard.views.pages.html import Markup, element, joined

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


def tick_text(tick: float) -> str:
    """A tick label without trailing zeros.

    >>> [tick_text(tick) for tick in (0.5, 10.0, -2.0, 20000.0)]
    ['0.5', '10', '−2', '20\\u202f000']
    """
    text = f"{tick:,.10f}".rstrip("0").rstrip(".")
    return text.replace(",", "\u202f").replace("-", "−")


def x_tick(x: float, text: str, *, top: float, bottom: float) -> Markup:
    """A vertical grid line with its tick label below."""
    return joined(
        element("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom),
        element("text", text, class_="tick", x=x, y=bottom + 18, text_anchor="middle"),
    )


def y_tick(y: float, text: str, *, left: float, right: float) -> Markup:
    """A horizontal grid line with its tick label to the left."""
    return joined(
        element("line", class_="grid", x1=left, x2=right, y1=y, y2=y),
        element("text", text, class_="tick", x=left - 8, y=y + 4, text_anchor="end"),
    )


def grid(
    across: Scale,
    up: Scale,
    *,
    x_ticks: Iterable[tuple[float, str]] | None = None,
    y_ticks: Iterable[tuple[float, str]] | None = None,
) -> Markup:
    """Grid lines and labels of both axes, by default at the ticks of the scales."""
    xs = ((tick, tick_text(tick)) for tick in across.ticks()) if x_ticks is None else x_ticks
    ys = ((tick, tick_text(tick)) for tick in up.ticks()) if y_ticks is None else y_ticks
    return joined(
        *(x_tick(across.position(x), text, top=up.end, bottom=up.start) for x, text in xs),
        *(y_tick(up.position(y), text, left=across.start, right=across.end) for y, text in ys),
    )


def line_to_label(
    name: str, points: Sequence[tuple[float, float]], *, label: tuple[float, float]
) -> Markup:
    """A line with a dot at its end, and its name at `label`, connected by a thin curve."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    (x, y), (left, middle) = points[-1], label
    leader = f"M{x + 4:.1f} {y:.1f} C{x + 18:.1f} {y:.1f} "
    leader += f"{left - 18:.1f} {middle:.1f} {left - 4:.1f} {middle:.1f}"
    return joined(
        element("polyline", points=path, class_="hit-area"),
        element("polyline", points=path, class_="stroke"),
        element("path", d=leader, class_="leader"),
        element("circle", cx=x, cy=y, r=3),
        element("text", name, x=left, y=middle + 4),
    )


def truncate(text: str, max_length: int) -> str:
    """The text, truncated with an ellipsis.

    >>> truncate("additive", 5)
    'addi…'
    """
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


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
