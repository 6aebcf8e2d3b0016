"""Times measured on a grid of sizes, and what they say of sizes in between and beyond.

Between grid points the logarithm of the time is linear in the logarithm of every size. Beyond the
largest it grows as the work does; points that would take too long to measure are left out of
the grid, and count as the largest measured one in that direction, scaled by its work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product as all_of
from typing import Any, Self

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class LogTable:
    """`axes` are the grid's sizes in each direction, ascending; `seconds` one number a grid point.

    `powers` says how the work grows beyond the grid in each direction: as which power of the size.
    Without it, as the size itself in all of them.
    """

    axes: tuple[tuple[int, ...], ...]
    seconds: dict[Sizes, float]
    powers: tuple[float, ...] = ()

    @classmethod
    def measured(
        cls,
        axes: Sequence[Sequence[int]],
        measure: Callable[[Sizes], float],
        *,
        work: Callable[[Sizes], float],
        most: float,
    ) -> Self:
        """Measure every point whose work is at most `most`; fill the others in from those."""
        seconds: dict[Sizes, float] = {}
        for point in all_of(*axes):
            if work(point) <= most:
                seconds[point] = measure(point)
            else:
                seconds[point] = _scaled_up(point, axes, seconds, work)
        return cls(tuple(tuple(axis) for axis in axes), seconds, _powers(axes, work))

    def at(self, sizes: Sizes) -> float:
        """Seconds for these sizes."""
        beyond = 1.0
        places = []
        powers = self.powers or (1.0,) * len(self.axes)
        for axis, size, power in zip(self.axes, sizes, powers, strict=True):
            beyond *= max(1.0, size / axis[-1]) ** power
            places.append(_between(axis, min(size, axis[-1])))
        total = 0.0
        for corner in all_of(*places):
            weight = math.prod(share for _, share in corner)
            if weight:
                total += weight * math.log(self.seconds[tuple(size for size, _ in corner)])
        return beyond * math.exp(total)

    def as_json(self) -> dict[str, Any]:
        return {
            "axes": [list(axis) for axis in self.axes],
            "seconds": [self.seconds[point] for point in all_of(*self.axes)],
            "powers": list(self.powers),
        }

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> Self:
        axes = tuple(tuple(int(size) for size in axis) for axis in held["axes"])
        points = list(all_of(*axes))
        seconds = dict(zip(points, map(float, held["seconds"]), strict=True))
        return cls(axes, seconds, tuple(map(float, held["powers"])))


def _powers(axes: Sequence[Sequence[int]], work: Callable[[Sizes], float]) -> tuple[float, ...]:
    """By which power of a size the work grows, where the grid ends."""
    last = tuple(axis[-1] for axis in axes)
    doubled = [(*last[:i], 2 * last[i], *last[i + 1 :]) for i in range(len(last))]
    return tuple(math.log2(work(sizes) / work(last)) for sizes in doubled)


def _between(axis: tuple[int, ...], size: int) -> list[tuple[int, float]]:
    """The grid sizes on both sides, each with its share."""
    if size <= axis[0]:
        return [(axis[0], 1.0)]
    upper = next(place for place, grid in enumerate(axis) if grid >= size)
    low, high = axis[upper - 1], axis[upper]
    share = math.log(size / low) / math.log(high / low)
    return [(low, 1 - share), (high, share)]


def _scaled_up(
    point: Sizes,
    axes: Sequence[Sequence[int]],
    seconds: dict[Sizes, float],
    work: Callable[[Sizes], float],
) -> float:
    """From neighbours one step lower in some direction, each scaled by its work; their mean."""
    guesses = []
    for direction, axis in enumerate(axes):
        place = list(axis).index(point[direction])
        if place:
            lower = (*point[:direction], axis[place - 1], *point[direction + 1 :])
            guesses.append(seconds[lower] * work(point) / work(lower))
    return math.exp(sum(map(math.log, guesses)) / len(guesses))
