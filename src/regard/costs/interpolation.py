"""Log-log interpolation of times that were measured on a grid of sizes.

Between grid points, log time is linear in the log of every size. Beyond the grid, time is extrapolated
in proportion to the work; grid points too slow to measure are filled in the same way.
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
    """Seconds for every point of the grid that `axes` (ascending sizes per dimension) spans.

    `powers` are the exponents for extrapolation beyond the grid, one per dimension; 1 by default.
    """

    axes: tuple[tuple[int, ...], ...]
    seconds: dict[Sizes, float]
    powers: tuple[float, ...] = ()

    @classmethod
    def from_measurements(
        cls,
        axes: Sequence[Sequence[int]],
        measure: Callable[[Sizes], float],
        *,
        work: Callable[[Sizes], float],
        max_work: float,
    ) -> Self:
        """Measure every point whose work is at most `max_work`; extrapolate the others."""
        seconds: dict[Sizes, float] = {}
        for point in all_of(*axes):
            if work(point) <= max_work:
                seconds[point] = measure(point)
            else:
                seconds[point] = _extrapolate(point, axes, seconds, work)
        return cls(tuple(tuple(axis) for axis in axes), seconds, _powers(axes, work))

    def at(self, sizes: Sizes) -> float:
        """Interpolated seconds for these sizes."""
        beyond = 1.0
        neighbours = []
        powers = self.powers or (1.0,) * len(self.axes)
        for axis, size, power in zip(self.axes, sizes, powers, strict=True):
            beyond *= max(1.0, size / axis[-1]) ** power
            neighbours.append(_neighbours(axis, min(size, axis[-1])))
        total = 0.0
        for corner in all_of(*neighbours):
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
    def from_json(cls, record: dict[str, Any]) -> Self:
        axes = tuple(tuple(int(size) for size in axis) for axis in record["axes"])
        points = list(all_of(*axes))
        seconds = dict(zip(points, map(float, record["seconds"]), strict=True))
        return cls(axes, seconds, tuple(map(float, record["powers"])))


def _powers(axes: Sequence[Sequence[int]], work: Callable[[Sizes], float]) -> tuple[float, ...]:
    """The exponent by which work grows with each size, at the end of the grid."""
    last = tuple(axis[-1] for axis in axes)
    doubled = [(*last[:i], 2 * last[i], *last[i + 1 :]) for i in range(len(last))]
    return tuple(math.log2(work(sizes) / work(last)) for sizes in doubled)


def _neighbours(axis: tuple[int, ...], size: int) -> list[tuple[int, float]]:
    """The grid sizes on both sides, with their interpolation weights."""
    if size <= axis[0]:
        return [(axis[0], 1.0)]
    upper = next(index for index, grid in enumerate(axis) if grid >= size)
    low, high = axis[upper - 1], axis[upper]
    share = math.log(size / low) / math.log(high / low)
    return [(low, 1 - share), (high, share)]


def _extrapolate(
    point: Sizes,
    axes: Sequence[Sequence[int]],
    seconds: dict[Sizes, float],
    work: Callable[[Sizes], float],
) -> float:
    """The geometric mean of the next lower neighbours, each scaled by its work."""
    guesses = []
    for direction, axis in enumerate(axes):
        index = list(axis).index(point[direction])
        if index:
            lower = (*point[:direction], axis[index - 1], *point[direction + 1 :])
            guesses.append(seconds[lower] * work(point) / work(lower))
    return math.exp(sum(map(math.log, guesses)) / len(guesses))
