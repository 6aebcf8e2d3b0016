"""From numbers to places in a chart, straight or logarithmic, with ticks at round numbers.

Any finite numbers have places, also the largest there are; on a logarithmic scale those above `SMALLEST`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import NamedTuple

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
