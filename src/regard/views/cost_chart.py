"""Operations against length, both on logarithmic scales, a line a mechanism, each named at its end.

On such scales linear cost is a slope of one and quadratic cost a slope of two. Mechanisms with the
same costs share a line. Heads of different widths get charts of their own: a narrow head is cheaper
whatever the mechanism, so in one chart the narrow ones would seem the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from regard.core.records import Survey
from regard.views.chart_ticks import tick_across, tick_down
from regard.views.growth import head_widths, priced_lengths, width_title
from regard.views.markup import Markup, element, joined
from regard.views.numbers import humanised, spaced

WIDTH = 1000
LEFT, RIGHT, TOP = 56.0, 700.0, 24.0
# A power of ten is as high in every chart, so that slopes can be compared between charts.
POWER_HEIGHT = 84.0
ROOM_BELOW = 50.0
LINE_HEIGHT = 17.0


class Line(NamedTuple):
    """Mechanisms of equal cost, and their operations at each length."""

    names: list[str]
    family: int
    points: tuple[tuple[int, int], ...]


def cost_charts(survey: Survey) -> Markup:
    """A chart for every width of heads, the widest first, each under its title."""
    charts = []
    for width in head_widths(survey):
        title, chart = width_title(width), cost_chart(survey, width=width)
        if chart:
            scrolled = element(
                "div", chart, class_="scroll", tabindex="0", role="region", aria_label=title
            )
            charts.append(joined(element("h3", title), scrolled))
    return joined(*charts)


def cost_chart(survey: Survey, *, width: int) -> Markup:
    """The chart of the mechanisms priced with heads of one width.

    Nothing where there are not two lengths to draw a line between.
    """
    lines = _lines(survey, width=width)
    lengths = sorted({length for line in lines for length, _ in line.points})
    counts = [count for line in lines for _, count in line.points if count > 0]
    if len(lengths) < 2 or not counts:
        return Markup("")
    floor, ceiling = math.floor(math.log10(min(counts))), math.ceil(math.log10(max(counts)))
    powers = max(ceiling - floor, 1)
    bottom = TOP + max(powers * POWER_HEIGHT, len(lines) * LINE_HEIGHT)

    def across(length: int) -> float:
        span = math.log2(lengths[-1] / lengths[0])
        return LEFT + (RIGHT - LEFT) * math.log2(length / lengths[0]) / span

    def down(count: int) -> float:
        share = (math.log10(max(count, 1)) - floor) / powers
        return bottom - (bottom - TOP) * share

    lines.sort(key=lambda line: down(line.points[-1][1]))
    wanted = [down(line.points[-1][1]) for line in lines]
    drawn = []
    for line, end, label in zip(lines, wanted, spread(wanted), strict=True):
        places = [(across(length), down(count)) for length, count in line.points]
        drawn.append(_line(line, places=places, end=end, label=label))
    return element(
        "svg",
        *(
            tick_across(across(length), spaced(length), top=TOP, bottom=bottom)
            for length in lengths
        ),
        *(
            tick_down(down(10**power), _power_of_ten(power), left=LEFT, right=RIGHT)
            for power in range(floor, ceiling + 1)
        ),
        element("text", "tokens", class_="unit", x=RIGHT, y=bottom + 38, text_anchor="end"),
        element("text", "operations", class_="unit", x=LEFT, y=TOP - 10),
        *drawn,
        viewBox=f"0 0 {WIDTH} {bottom + ROOM_BELOW:.0f}",
        class_="cost-chart",
        role="img",
        aria_label=f"Operations against length, {width_title(width)}; the table has the numbers.",
    )


def spread(places: Sequence[float], *, least: float = LINE_HEIGHT, top: float = TOP) -> list[float]:
    """Ascending places moved as little as need be for neighbours to be `least` apart.

    Places that crowd together become a block around their mean, and blocks that touch merge.

    >>> spread([100.0, 101.0, 200.0], least=10.0)
    [95.5, 105.5, 200.0]
    """
    blocks: list[list[float]] = []
    for place in places:
        blocks.append([place])
        while len(blocks) > 1 and _first(blocks[-1], least, top) < (
            _first(blocks[-2], least, top) + len(blocks[-2]) * least
        ):
            last = blocks.pop()
            blocks[-1].extend(last)
    return [
        _first(block, least, top) + index * least for block in blocks for index in range(len(block))
    ]


def _first(block: list[float], least: float, top: float) -> float:
    return max(sum(block) / len(block) - least * (len(block) - 1) / 2, top)


def _lines(survey: Survey, *, width: int) -> list[Line]:
    found: dict[object, Line] = {}
    for record in survey.mechanisms:
        if record.cost_width != width:
            continue
        points = tuple((priced.length, priced.cost.operations) for priced in priced_lengths(record))
        if points:
            family = survey.families.index(record.family)
            line = Line([], family, points)
            found.setdefault((family, points), line).names.append(record.name)
    return list(found.values())


def _line(line: Line, *, places: Sequence[tuple[float, float]], end: float, label: float) -> Markup:
    text = ", ".join(line.names)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    start, stop = f"{RIGHT + 5} {end:.1f}", f"{RIGHT + 26} {label:.1f}"
    leader = f"M{start} C{RIGHT + 18} {end:.1f} {RIGHT + 12} {label:.1f} {stop}"
    return element(
        "g",
        element("title", f"{text}: {humanised(line.points[-1][1])} at {line.points[-1][0]} tokens"),
        element("polyline", points=path, class_="reach"),
        element("polyline", points=path, class_="stroke"),
        element("path", d=leader, class_="leader"),
        element("circle", cx=RIGHT, cy=end, r=3),
        element("text", text, x=RIGHT + 30, y=label + 4),
        class_=f"line family-{line.family}",
    )


def _power_of_ten(power: int) -> str:
    return humanised(10**power).replace(".0", "")
