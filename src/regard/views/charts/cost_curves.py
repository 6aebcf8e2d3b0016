"""Operations against length, both on logarithmic scales, a line a mechanism, each named at its end.

On such scales linear cost is a slope of one and quadratic cost a slope of two. Mechanisms with the
same costs share a line. Heads of different widths get charts of their own: a narrow head is cheaper
whatever the mechanism, so in one chart the narrow ones would seem the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.records.cost import CostReport, Crossing, Curve
from regard.core.records.overview import MechanismRecord, Survey
from regard.views.charts.axes import tick_across, tick_down
from regard.views.charts.figure_file import (
    INK,
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    text_width,
    write_figure,
)
from regard.views.pages.html import Markup, element, joined
from regard.views.text.costs import machine_text, setting_text
from regard.views.text.numbers import humanised, seconds_text, spaced

# Costs with their growth: the operations at twice the length over those at the length itself.
#
# Only costs of heads of one width can be compared, so whoever shows them goes through the widths.


class Priced(NamedTuple):
    """A declared cost, and by what factor the operations grow when the length doubles."""

    length: int
    cost: Cost
    form: str | None
    growth: float


def head_widths(survey: Survey) -> list[int]:
    """The widths of heads at which mechanisms were priced, the widest first."""
    return sorted({record.cost_width for record in survey.mechanisms}, reverse=True)


def width_title(width: int) -> str:
    """What stands over costs of one width of heads."""
    return f"heads of width {width}"


def priced_lengths(record: MechanismRecord) -> list[Priced]:
    """Every length of the record whose double is there too, ascending."""
    return [
        Priced(
            length=now.length,
            cost=now.cost,
            form=now.form,
            growth=twice.cost.operations / max(now.cost.operations, 1),
        )
        for now, twice in pairwise(record.costs)
        if twice.length == 2 * now.length
    ]


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


# What the chart on a page and the picture in a file share: the range of the axes, and their words.


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


# Predicted time against length, both on logarithmic scales, for a page: a line each, named at its
# end.
#
# It takes its colours from the page, so it is light or dark as that is.


TIME_LEFT, TIME_RIGHT, TIME_TOP, HEIGHT, TIME_ROOM_BELOW = 64.0, 740.0, 24.0, 520.0, 50.0


def time_chart(report: CostReport) -> Markup:
    """The chart; nothing where there is nothing to draw."""
    found = ranges(report)
    if found is None:
        return Markup("")
    bottom = TIME_TOP + HEIGHT

    def across(length: int) -> float:
        share = math.log(length / found.shortest) / math.log(found.longest / found.shortest)
        return TIME_LEFT + (TIME_RIGHT - TIME_LEFT) * share

    def down(height: float) -> float:
        share = (math.log10(height) - found.floor) / (found.ceiling - found.floor)
        return bottom - HEIGHT * share

    def line(curve: Curve, label: float) -> Markup:
        places = [(across(length), down(height)) for length, height in curve.points if height > 0]
        return _time_line(report, curve, places=places, label=label)

    def drawn(mark: Mark) -> Markup:
        places = [
            (across(crossing.length), down(crossing.height), crossing.sentence)
            for crossing in mark.crossings
            if crossing.length is not None and crossing.height is not None
        ]
        x, y = across(mark.length), down(mark.height)
        return element(
            "g",
            *(
                element("circle", element("title", sentence), cx=cx, cy=cy, r=6)
                for cx, cy, sentence in places
            ),
            element("text", mark.label, x=x - 8, y=y - 11, text_anchor="end"),
            class_="crossing",
        )

    curves = sorted(report.curves, key=lambda curve: -curve.points[-1][1])
    labels = spread([down(curve.points[-1][1]) for curve in curves])
    powers = range(found.floor, found.ceiling + 1)
    return element(
        "svg",
        *(
            tick_across(across(length), spaced(length), top=TIME_TOP, bottom=bottom)
            for length in length_ticks(found)
        ),
        *(
            tick_down(
                down(10.0**power), height_text(report, power), left=TIME_LEFT, right=TIME_RIGHT
            )
            for power in powers
        ),
        element("text", "tokens", class_="unit", x=TIME_RIGHT, y=bottom + 38, text_anchor="end"),
        element("text", height_name(report), class_="unit", x=TIME_LEFT, y=TIME_TOP - 10),
        *(line(curve, label) for curve, label in zip(curves, labels, strict=True)),
        *(drawn(mark) for mark in marks(report)),
        viewBox=f"0 0 {WIDTH} {max(bottom, *labels) + TIME_ROOM_BELOW:.0f}",
        class_="cost-chart",
        role="img",
        aria_label=f"{height_name(report)} against length; the sentences say where lines cross.",
    )


def family_class(report: CostReport, family: str) -> str:
    """The class whose colour is that of a family."""
    return "family-layer" if family == "layer" else f"family-{report.families.index(family)}"


def _time_line(
    report: CostReport, curve: Curve, *, places: list[tuple[float, float]], label: float
) -> Markup:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, end = places[-1]
    leader = f"M{x + 5:.1f} {end:.1f} C{x + 18:.1f} {end:.1f} {x + 12:.1f} {label:.1f} "
    leader += f"{x + 26:.1f} {label:.1f}"
    length, height = curve.points[-1]
    reached = seconds_text(height) if report.has_times else humanised(round(height))
    return element(
        "g",
        element("title", f"{curve.name}: {reached} at {length} tokens"),
        element("polyline", points=path, class_="reach"),
        element("polyline", points=path, class_="stroke"),
        element("path", d=leader, class_="leader"),
        element("circle", cx=x, cy=end, r=3),
        element("text", curve.name, x=x + 30, y=label + 4),
        class_=f"line {family_class(report, curve.family)}",
    )


# Predicted time against length as a picture in a file: a line each, named at its end, crossings
# marked.


# Inches.
FILE_WIDTH, FILE_HEIGHT, FILE_LEFT, FILE_TOP, BOTTOM = 9.6, 6.2, 0.85, 0.95, 0.65
LABEL_SIZE, FILE_LINE_HEIGHT, LEADER = 9.0, 0.17, 0.28
GRID = "#eaeef2"
FAMILY_COLOURS = ("#2463b4", "#b8480f", "#1f7f57", "#8447a8", "#94700a", "#6e7781")


def draw_time_plot(report: CostReport, *, path: Path) -> None:
    """Write the picture to `path`, an .svg or a .png."""
    require_figure_suffix(path)
    found = ranges(report)
    if found is None:
        raise RegardError(
            "There are no curves of two lengths or more to draw. Name mechanisms that do this shape."
        )
    with figure_settings():
        write_figure(_figure(report, found), path=path)


def _figure(report: CostReport, found: Ranges) -> Any:
    names = [shown(curve.name) for curve in report.curves]
    right = LEADER + max(text_width(name, font_size=LABEL_SIZE) for name in names) + 0.15
    sheet = Sheet(width=FILE_WIDTH, height=FILE_HEIGHT)
    width, height = FILE_WIDTH - FILE_LEFT - right, FILE_HEIGHT - FILE_TOP - BOTTOM
    axes = sheet.axes(FILE_LEFT, FILE_TOP, width, height)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(found.shortest, found.longest)
    axes.set_ylim(10.0**found.floor, 10.0**found.ceiling)
    lengths = length_ticks(found)
    axes.set_xticks(lengths, labels=[str(length) for length in lengths])
    powers = range(found.floor, found.ceiling + 1)
    axes.set_yticks([10.0**p for p in powers], labels=[height_text(report, p) for p in powers])
    axes.minorticks_off()
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("tokens")
    sheet.text(FILE_LEFT, 0.35, f"{height_name(report)} against length", size=12, weight="bold")
    sheet.text(FILE_LEFT, 0.58, setting_text(report, with_length=False), size=9, color=QUIET_INK)
    sheet.text(FILE_LEFT, 0.76, machine_text(report), size=9, color=QUIET_INK)
    _draw_curves(axes, report, width=width, height=height)
    for mark in marks(report):
        for crossing in mark.crossings:
            axes.plot(crossing.length, crossing.height, "o", mfc="none", mec=INK, ms=8, zorder=4)
        axes.annotate(
            mark.label,
            (mark.length, mark.height),
            xytext=(-8, 7),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
            weight="bold",
            bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
        )
    return sheet.figure


def _draw_curves(axes: Any, report: CostReport, *, width: float, height: float) -> None:
    """The lines, and their names beside their ends, in inches apart."""
    curves = sorted(report.curves, key=lambda curve: -curve.points[-1][1])
    to_share = (axes.transScale + axes.transLimits).transform
    ends = [height * (1 - to_share(curve.points[-1])[1]) for curve in curves]
    for curve, end, label in zip(
        curves, ends, spread(ends, least=FILE_LINE_HEIGHT, top=0.0), strict=True
    ):
        colour = _colour(report, curve.family)
        axes.plot(*zip(*curve.points, strict=True), color=colour, lw=1.6)
        axes.annotate(
            shown(curve.name),
            (1.0, 1 - end / height),
            xycoords="axes fraction",
            xytext=(1 + LEADER / width, 1 - label / height),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=LABEL_SIZE,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "alpha": 0.4,
                "lw": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 1,
            },
        )


def _colour(report: CostReport, family: str) -> str:
    if family == "layer":
        return INK
    return FAMILY_COLOURS[report.families.index(family) % len(FAMILY_COLOURS)]
