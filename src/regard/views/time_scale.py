"""What the chart on a page and the picture in a file share: the range of the axes, and their words."""

from __future__ import annotations

import math
from typing import NamedTuple

from regard.core.cost_report import CostReport, Crossing
from regard.views.numbers import humanised, seconds_text

CLOSE = 1.25


class Ranges(NamedTuple):
    """The shortest and longest length, and the powers of ten that hold all heights."""

    shortest: int
    longest: int
    floor: int
    ceiling: int


def ranges(report: CostReport) -> Ranges | None:
    """The ranges of the curves; None where there are not two lengths to draw a line between."""
    points = [point for curve in report.curves for point in curve.points if point[1] > 0]
    lengths = {length for length, _ in points}
    if len(lengths) < 2:
        return None
    heights = [height for _, height in points]
    floor, ceiling = math.floor(math.log10(min(heights))), math.ceil(math.log10(max(heights)))
    return Ranges(min(lengths), max(lengths), floor, max(ceiling, floor + 1))


def length_ticks(found: Ranges) -> list[int]:
    """Powers of two within the range."""
    first, last = math.ceil(math.log2(found.shortest)), math.floor(math.log2(found.longest))
    return [1 << power for power in range(first, last + 1)]


def height_text(report: CostReport, power: int) -> str:
    """A power of ten, of seconds or of operations."""
    if not report.has_times:
        return humanised(10**power).replace(".0", "")
    return seconds_text(10.0**power).replace(".00", "").replace(".0", "")


def height_name(report: CostReport) -> str:
    """What is drawn against length."""
    return "predicted time" if report.has_times else "operations"


class Mark(NamedTuple):
    """Crossings that lie too close to be told apart, under one label at the last of them."""

    crossings: list[Crossing]
    length: int
    height: float
    label: str


def marks(report: CostReport) -> list[Mark]:
    """The crossings that are drawn, those within a quarter of one another together."""
    groups: list[list[Crossing]] = []
    for crossing in sorted(marked(report), key=lambda crossing: crossing.length or 0):
        near = groups and (crossing.length or 0) < CLOSE * (groups[-1][-1].length or 0)
        if near:
            groups[-1].append(crossing)
        else:
            groups.append([crossing])
    found = []
    for group in groups:
        lengths = [crossing.length or 0 for crossing in group]
        label = f"n = {lengths[0]}" + (f"–{lengths[-1]}" if lengths[-1] > lengths[0] else "")
        highest = max(crossing.height or 0.0 for crossing in group)
        found.append(Mark(group, lengths[len(group) // 2], highest, label))
    return found


def marked(report: CostReport) -> list[Crossing]:
    """The crossings that lie within the chart, on curves that are drawn."""
    found, drawn = ranges(report), {curve.name for curve in report.curves}
    return [
        crossing
        for crossing in report.crossings
        if found is not None
        and crossing.length is not None
        and crossing.height is not None
        and found.shortest < crossing.length < found.longest
        and {crossing.before, crossing.then} <= drawn
    ]
