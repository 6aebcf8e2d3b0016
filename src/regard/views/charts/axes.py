"""From numbers to places in a chart, straight or logarithmic, with ticks at round numbers.

Any finite numbers have places, also the largest there are; on a logarithmic scale those above `SMALLEST`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regard.views.pages.html import Markup, element, joined

ROUND_STEPS = (1.0, 2.0, 5.0, 10.0)
# A little air, so that nothing is drawn on the edge.
AIR = 0.06
# Numbers nearer to one another than this share of their size differ by rounding only.
ROUNDING = 1e-12
# Below it floats lose digits, and a step between ticks may become 0; no logarithmic scale goes there.
SMALLEST = sys.float_info.min / sys.float_info.epsilon
LARGEST = sys.float_info.max


class Scale(NamedTuple):
    """`low` is drawn at `start` and `high` at `end`; either may be the larger place."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where a number is drawn."""
        low, high, shown = self.low, self.high, value
        if self.logarithmic:
            low, high, shown = math.log(low), math.log(high), math.log(value)
        # Halved, since the distance of two numbers may be beyond the largest.
        share = (shown / 2 - low / 2) / (high / 2 - low / 2)
        return self.start + (self.end - self.start) * share

    def held(self, value: float) -> float:
        """The number, or the end of the scale that it lies beyond."""
        return min(max(value, self.low), self.high)

    def ticks(self, *, about: int = 5) -> list[float]:
        """Round numbers on the scale, about as many as asked for.

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
            if len(found) > 2 * about:
                found = [tick for tick in found if math.log10(tick).is_integer()]
            if len(found) > 1:
                return found
        nearest = self.high / about - self.low / about
        power = 10.0 ** math.floor(math.log10(nearest))
        step = power * min(ROUND_STEPS, key=lambda each: abs(nearest / (power * each) - 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        decimals = max(0, 1 - math.floor(math.log10(step)))
        return [round(number * step, decimals) for number in range(first, last + 1)]


def scale_around(
    values: Iterable[float],
    *,
    start: float,
    end: float,
    logarithmic: bool = False,
    air: float = AIR,
) -> Scale:
    """A scale that holds the values, with air on both sides; not below 0 if none of them is.

    >>> scale_around([3.0], start=0.0, end=1.0)[:2]
    (2.7, 3.3)
    """
    found = list(values)
    low, high = min(found), max(found)
    if logarithmic and low > 0:
        apart = math.log(high) - math.log(low)
        reach = math.exp(apart * air) if apart > ROUNDING else 1.1
        least = max(low / reach, min(low, SMALLEST))
        return Scale(least, min(high * reach, LARGEST), start, end, True)
    size = max(abs(low), abs(high))
    if high / 2 - low / 2 > max(size * ROUNDING, SMALLEST):
        reach = high * air - low * air
    else:
        reach = size * 0.1 if size > SMALLEST else 1.0
    floor = 0.0 if low >= 0 else -LARGEST
    return Scale(max(low - reach, floor), min(high + reach, LARGEST), start, end)


def tick_text(tick: float) -> str:
    """A round number without idle decimals.

    >>> [tick_text(tick) for tick in (0.5, 10.0, -2.0, 20000.0)]
    ['0.5', '10', '−2', '20\\u202f000']
    """
    text = f"{tick:,.10f}".rstrip("0").rstrip(".")
    return text.replace(",", "\u202f").replace("-", "−")


# Ticks of a chart: a faint line across the field, and its number beside the axis.


def tick_across(place: float, text: str, *, top: float, bottom: float) -> Markup:
    """At a place of the horizontal axis."""
    return joined(
        element("line", class_="grid", x1=place, x2=place, y1=top, y2=bottom),
        element("text", text, class_="tick", x=place, y=bottom + 18, text_anchor="middle"),
    )


def tick_down(place: float, text: str, *, left: float, right: float) -> Markup:
    """At a place of the vertical axis."""
    return joined(
        element("line", class_="grid", x1=left, x2=right, y1=place, y2=place),
        element("text", text, class_="tick", x=left - 8, y=place + 4, text_anchor="end"),
    )


# Names beside the points of a chart, so that none covers another or a point.
#
# Each name is tried on the sides of its point in turn. One that fits nowhere is left out, so those
# that matter most come first.


LETTER, LINE = 6.9, 14.0
CLEAR = 9.0


class Box(NamedTuple):
    """A rectangle, from its left and top to its right and bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two have any place in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Label(NamedTuple):
    """Where a text begins ("start"), ends ("end") or has its middle, and on which line."""

    x: float
    y: float
    anchor: str


def label_places(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    *,
    within: Box,
    taken: Sequence[Box] = (),
    keen: int = 0,
) -> list[Label | None]:
    """A place for each text, or None; earlier ones choose first. `taken` is kept clear as well.

    The first `keen` texts may stand a little further off, where one cannot always tell whose they are.

    >>> room = Box(0.0, 0.0, 100.0, 100.0)
    >>> label_places([(50.0, 50.0), (52.0, 50.0)], ["one", "two"], within=room)[0]
    Label(x=59.0, y=54.0, anchor='start')
    """
    filled = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points] + list(taken)
    found: list[Label | None] = []
    for place, ((x, y), text) in enumerate(zip(points, texts, strict=True)):
        width = LETTER * len(text)
        chosen = None
        for label, box in _tries(x, y, width, far=place < keen):
            inside = (
                box.left >= within.left
                and box.right <= within.right
                and box.top >= within.top
                and box.bottom <= within.bottom
            )
            if inside and not any(box.meets(other) for other in filled):
                chosen = label
                filled.append(box)
                break
        found.append(chosen)
    return found


def _tries(x: float, y: float, width: float, *, far: bool) -> list[tuple[Label, Box]]:
    tries = []
    levels = (0.0, -LINE, LINE, -1.7 * LINE, 1.7 * LINE)
    for down in levels if far else levels[:3]:
        middle = y + down
        top, bottom = middle - LINE / 2, middle + LINE / 2
        aside = CLEAR if not down else 0.0
        tries += [
            (
                Label(x + CLEAR, middle + 4, "start"),
                Box(x + aside, top, x + CLEAR + width, bottom),
            ),
            (Label(x - CLEAR, middle + 4, "end"), Box(x - CLEAR - width, top, x - aside, bottom)),
        ]
        if down:
            half = width / 2
            tries.append((Label(x, middle + 4, "middle"), Box(x - half, top, x + half, bottom)))
    return tries
