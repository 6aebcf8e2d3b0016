"""Cost curves against sequence length on log-log scales, one labelled line per mechanism.

On these scales linear cost has slope one and quadratic cost slope two. `cost_charts` shows the declared
FLOPs of an overview, one chart per head width, since narrow heads are cheaper for any mechanism;
mechanisms of equal cost share a line. `cost_curves_chart` and `draw_cost_curves` show the predicted time
of a cost report, or its FLOPs without a calibration, with crossover points marked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.records.cost import CostReport, Crossover, Curve
from regard.core.records.overview import MechanismRecord, Overview
from regard.views.charts.axes import x_tick, y_tick
from regard.views.charts.figure_file import (
    GRID,
    INK,
    QUIET_INK,
    Sheet,
    figure_settings,
    printable,
    text_width,
    validate_figure_suffix,
    write_figure,
)
from regard.views.pages.html import Markup, element, joined
from regard.views.text.costs import machine_text, setting_text
from regard.views.text.numbers import count_text, seconds_text, spaced


class LengthCost(NamedTuple):
    """A declared cost; `doubling_factor` is FLOPs at twice the length over FLOPs at this length."""

    length: int
    cost: Cost
    form: str | None
    doubling_factor: float


def head_dims(overview: Overview) -> list[int]:
    """Head widths of the declared costs, descending."""
    return sorted({record.cost_head_dim for record in overview.mechanisms}, reverse=True)


def head_dim_title(head_dim: int) -> str:
    """Title of the chart of one head width."""
    return f"head_dim = {head_dim}"


def costs_by_length(record: MechanismRecord) -> list[LengthCost]:
    """Costs at every length whose double is recorded too, ascending."""
    return [
        LengthCost(
            length=now.length,
            cost=now.cost,
            form=now.form,
            doubling_factor=twice.cost.flops / max(now.cost.flops, 1),
        )
        for now, twice in pairwise(record.costs)
        if twice.length == 2 * now.length
    ]


WIDTH = 1000
LEFT, RIGHT, TOP = 56.0, 700.0, 24.0
# Height of a power of ten, the same in every chart, so that slopes can be compared.
POWER_HEIGHT = 84.0
BELOW = 50.0
LINE_HEIGHT = 17.0


class Line(NamedTuple):
    """Mechanisms of equal cost, and their FLOPs at each length."""

    names: list[str]
    family: int
    points: tuple[tuple[int, int], ...]


def cost_charts(overview: Overview) -> Markup:
    """One titled chart per head width, widest first."""
    charts = []
    for width in head_dims(overview):
        title, chart = head_dim_title(width), cost_chart(overview, width=width)
        if chart:
            scrolled = element(
                "div", chart, class_="scroll", tabindex="0", role="region", aria_label=title
            )
            charts.append(joined(element("h3", title), scrolled))
    return joined(*charts)


def cost_chart(overview: Overview, *, width: int) -> Markup:
    """FLOPs against length for one head width; empty with fewer than two lengths."""
    lines = _lines(overview, width=width)
    lengths = sorted({length for line in lines for length, _ in line.points})
    counts = [count for line in lines for _, count in line.points if count > 0]
    if len(lengths) < 2 or not counts:
        return Markup("")
    lowest, highest = math.floor(math.log10(min(counts))), math.ceil(math.log10(max(counts)))
    powers = max(highest - lowest, 1)
    bottom = TOP + max(powers * POWER_HEIGHT, len(lines) * LINE_HEIGHT)

    def across(length: int) -> float:
        span = math.log2(lengths[-1] / lengths[0])
        return LEFT + (RIGHT - LEFT) * math.log2(length / lengths[0]) / span

    def down(count: int) -> float:
        fraction = (math.log10(max(count, 1)) - lowest) / powers
        return bottom - (bottom - TOP) * fraction

    lines.sort(key=lambda line: down(line.points[-1][1]))
    ends = [down(line.points[-1][1]) for line in lines]
    drawn = []
    for line, end, label in zip(lines, ends, spread_labels(ends), strict=True):
        positions = [(across(length), down(count)) for length, count in line.points]
        drawn.append(_line(line, positions=positions, end=end, label=label))
    return element(
        "svg",
        *(x_tick(across(length), spaced(length), top=TOP, bottom=bottom) for length in lengths),
        *(
            y_tick(down(10**power), _power_of_ten(power), left=LEFT, right=RIGHT)
            for power in range(lowest, highest + 1)
        ),
        element("text", "tokens", class_="unit", x=RIGHT, y=bottom + 38, text_anchor="end"),
        element("text", "FLOPs", class_="unit", x=LEFT, y=TOP - 10),
        *drawn,
        viewBox=f"0 0 {WIDTH} {bottom + BELOW:.0f}",
        class_="cost-chart",
        role="img",
        aria_label=f"FLOPs against length, {head_dim_title(width)}; the table has the numbers.",
    )


def spread_labels(
    positions: Sequence[float], *, spacing: float = LINE_HEIGHT, top: float = TOP
) -> list[float]:
    """Move ascending label positions apart to at least `spacing`, as little as possible.

    Overlapping labels form a block around their mean, and touching blocks merge.

    >>> spread_labels([100.0, 101.0, 200.0], spacing=10.0)
    [95.5, 105.5, 200.0]
    """
    blocks: list[list[float]] = []
    for position in positions:
        blocks.append([position])
        while len(blocks) > 1 and _first(blocks[-1], spacing, top) < (
            _first(blocks[-2], spacing, top) + len(blocks[-2]) * spacing
        ):
            last = blocks.pop()
            blocks[-1].extend(last)
    return [
        _first(block, spacing, top) + index * spacing
        for block in blocks
        for index in range(len(block))
    ]


def _first(block: list[float], spacing: float, top: float) -> float:
    return max(sum(block) / len(block) - spacing * (len(block) - 1) / 2, top)


def _lines(overview: Overview, *, width: int) -> list[Line]:
    found: dict[object, Line] = {}
    for record in overview.mechanisms:
        if record.cost_head_dim != width:
            continue
        points = tuple((each.length, each.cost.flops) for each in costs_by_length(record))
        if points:
            family = overview.families.index(record.family)
            line = Line([], family, points)
            found.setdefault((family, points), line).names.append(record.name)
    return list(found.values())


def _line(
    line: Line, *, positions: Sequence[tuple[float, float]], end: float, label: float
) -> Markup:
    text = ", ".join(line.names)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in positions)
    start, stop = f"{RIGHT + 5} {end:.1f}", f"{RIGHT + 26} {label:.1f}"
    leader = f"M{start} C{RIGHT + 18} {end:.1f} {RIGHT + 12} {label:.1f} {stop}"
    return element(
        "g",
        element(
            "title", f"{text}: {count_text(line.points[-1][1])} at {line.points[-1][0]} tokens"
        ),
        element("polyline", points=path, class_="hit-area"),
        element("polyline", points=path, class_="stroke"),
        element("path", d=leader, class_="leader"),
        element("circle", cx=RIGHT, cy=end, r=3),
        element("text", text, x=RIGHT + 30, y=label + 4),
        class_=f"line family-{line.family}",
    )


def _power_of_ten(power: int) -> str:
    return count_text(10**power).replace(".0", "")


# Crossovers within this factor share a label.
CLOSE_RATIO = 1.25


class Ranges(NamedTuple):
    """Range of lengths, and the powers of ten around all values."""

    shortest: int
    longest: int
    min_power: int
    max_power: int


def ranges(report: CostReport) -> Ranges | None:
    """Ranges of the curves; None with fewer than two lengths."""
    points = [point for curve in report.curves for point in curve.points if point[1] > 0]
    lengths = {length for length, _ in points}
    if len(lengths) < 2:
        return None
    values = [value for _, value in points]
    lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Ranges(min(lengths), max(lengths), lowest, max(highest, lowest + 1))


def length_ticks(found: Ranges) -> list[int]:
    """Powers of two within the range."""
    first, last = math.ceil(math.log2(found.shortest)), math.floor(math.log2(found.longest))
    return [1 << power for power in range(first, last + 1)]


def value_tick_text(report: CostReport, power: int) -> str:
    """Tick label of a power of ten, in seconds or FLOPs."""
    if not report.has_times:
        return count_text(10**power).replace(".0", "")
    return seconds_text(10.0**power).replace(".00", "").replace(".0", "")


def value_name(report: CostReport) -> str:
    """Name of the y-axis."""
    return "predicted time" if report.has_times else "FLOPs"


class CrossoverLabel(NamedTuple):
    """Crossovers within a factor of `CLOSE_RATIO`, under one label."""

    crossovers: list[Crossover]
    length: int
    value: float
    text: str


def crossover_labels(report: CostReport) -> list[CrossoverLabel]:
    """Labels of the visible crossovers."""
    groups: list[list[Crossover]] = []
    for crossover in sorted(
        visible_crossovers(report), key=lambda crossover: crossover.length or 0
    ):
        near = groups and (crossover.length or 0) < CLOSE_RATIO * (groups[-1][-1].length or 0)
        if near:
            groups[-1].append(crossover)
        else:
            groups.append([crossover])
    found = []
    for group in groups:
        lengths = [crossover.length or 0 for crossover in group]
        label = f"n = {lengths[0]}" + (f"–{lengths[-1]}" if lengths[-1] > lengths[0] else "")
        highest = max(crossover.value or 0.0 for crossover in group)
        found.append(CrossoverLabel(group, lengths[len(group) // 2], highest, label))
    return found


def visible_crossovers(report: CostReport) -> list[Crossover]:
    """Crossovers within the chart, of curves that are drawn."""
    found, drawn = ranges(report), {curve.name for curve in report.curves}
    return [
        crossover
        for crossover in report.crossovers
        if found is not None
        and crossover.length is not None
        and crossover.value is not None
        and found.shortest < crossover.length < found.longest
        and {crossover.baseline, crossover.candidate} <= drawn
    ]


TIME_LEFT, TIME_RIGHT, TIME_TOP, HEIGHT, TIME_BELOW = 64.0, 740.0, 24.0, 520.0, 50.0


def cost_curves_chart(report: CostReport) -> Markup:
    """Predicted time against length as SVG; empty with fewer than two lengths."""
    found = ranges(report)
    if found is None:
        return Markup("")
    bottom = TIME_TOP + HEIGHT

    def across(length: int) -> float:
        fraction = math.log(length / found.shortest) / math.log(found.longest / found.shortest)
        return TIME_LEFT + (TIME_RIGHT - TIME_LEFT) * fraction

    def down(value: float) -> float:
        fraction = (math.log10(value) - found.min_power) / (found.max_power - found.min_power)
        return bottom - HEIGHT * fraction

    def line(curve: Curve, label: float) -> Markup:
        positions = [(across(length), down(value)) for length, value in curve.points if value > 0]
        return _time_line(report, curve, positions=positions, label=label)

    def drawn(mark: CrossoverLabel) -> Markup:
        positions = [
            (across(crossover.length), down(crossover.value), crossover.sentence)
            for crossover in mark.crossovers
            if crossover.length is not None and crossover.value is not None
        ]
        x, y = across(mark.length), down(mark.value)
        return element(
            "g",
            *(
                element("circle", element("title", sentence), cx=cx, cy=cy, r=6)
                for cx, cy, sentence in positions
            ),
            element("text", mark.text, x=x - 8, y=y - 11, text_anchor="end"),
            class_="crossover",
        )

    curves = sorted(report.curves, key=lambda curve: -curve.points[-1][1])
    labels = spread_labels([down(curve.points[-1][1]) for curve in curves])
    powers = range(found.min_power, found.max_power + 1)
    return element(
        "svg",
        *(
            x_tick(across(length), spaced(length), top=TIME_TOP, bottom=bottom)
            for length in length_ticks(found)
        ),
        *(
            y_tick(
                down(10.0**power), value_tick_text(report, power), left=TIME_LEFT, right=TIME_RIGHT
            )
            for power in powers
        ),
        element("text", "tokens", class_="unit", x=TIME_RIGHT, y=bottom + 38, text_anchor="end"),
        element("text", value_name(report), class_="unit", x=TIME_LEFT, y=TIME_TOP - 10),
        *(line(curve, label) for curve, label in zip(curves, labels, strict=True)),
        *(drawn(mark) for mark in crossover_labels(report)),
        viewBox=f"0 0 {WIDTH} {max(bottom, *labels) + TIME_BELOW:.0f}",
        class_="cost-chart",
        role="img",
        aria_label=f"{value_name(report)} against length; crossovers are listed below.",
    )


def family_class(report: CostReport, family: str) -> str:
    """CSS class of a family's colour."""
    return "family-layer" if family == "layer" else f"family-{report.families.index(family)}"


def _time_line(
    report: CostReport, curve: Curve, *, positions: list[tuple[float, float]], label: float
) -> Markup:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in positions)
    x, end = positions[-1]
    leader = f"M{x + 5:.1f} {end:.1f} C{x + 18:.1f} {end:.1f} {x + 12:.1f} {label:.1f} "
    leader += f"{x + 26:.1f} {label:.1f}"
    length, value = curve.points[-1]
    text = seconds_text(value) if report.has_times else count_text(round(value))
    return element(
        "g",
        element("title", f"{curve.name}: {text} at {length} tokens"),
        element("polyline", points=path, class_="hit-area"),
        element("polyline", points=path, class_="stroke"),
        element("path", d=leader, class_="leader"),
        element("circle", cx=x, cy=end, r=3),
        element("text", curve.name, x=x + 30, y=label + 4),
        class_=f"line {family_class(report, curve.family)}",
    )


# Inches.
FILE_WIDTH, FILE_HEIGHT, FILE_LEFT, FILE_TOP, BOTTOM = 9.6, 6.2, 0.85, 0.95, 0.65
LABEL_SIZE, FILE_LINE_HEIGHT, LEADER = 9.0, 0.17, 0.28
FAMILY_COLOURS = ("#2463b4", "#b8480f", "#1f7f57", "#8447a8", "#94700a", "#6e7781")


def draw_cost_curves(report: CostReport, *, path: Path) -> None:
    """Draw predicted time against length to `path`, an .svg or .png file."""
    validate_figure_suffix(path)
    found = ranges(report)
    if found is None:
        raise RegardError(
            "There are no curves with two lengths or more. Select mechanisms that support this shape."
        )
    with figure_settings():
        write_figure(_figure(report, found), path=path)


def _figure(report: CostReport, found: Ranges) -> Any:
    names = [printable(curve.name) for curve in report.curves]
    right = LEADER + max(text_width(name, font_size=LABEL_SIZE) for name in names) + 0.15
    sheet = Sheet(width=FILE_WIDTH, height=FILE_HEIGHT)
    width, height = FILE_WIDTH - FILE_LEFT - right, FILE_HEIGHT - FILE_TOP - BOTTOM
    axes = sheet.axes(FILE_LEFT, FILE_TOP, width, height)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(found.shortest, found.longest)
    axes.set_ylim(10.0**found.min_power, 10.0**found.max_power)
    lengths = length_ticks(found)
    axes.set_xticks(lengths, labels=[str(length) for length in lengths])
    powers = range(found.min_power, found.max_power + 1)
    axes.set_yticks([10.0**p for p in powers], labels=[value_tick_text(report, p) for p in powers])
    axes.minorticks_off()
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("tokens")
    sheet.text(FILE_LEFT, 0.35, f"{value_name(report)} against length", size=12, weight="bold")
    sheet.text(FILE_LEFT, 0.58, setting_text(report, with_length=False), size=9, color=QUIET_INK)
    sheet.text(FILE_LEFT, 0.76, machine_text(report), size=9, color=QUIET_INK)
    _draw_curves(axes, report, width=width, height=height)
    for mark in crossover_labels(report):
        for crossover in mark.crossovers:
            axes.plot(crossover.length, crossover.value, "o", mfc="none", mec=INK, ms=8, zorder=4)
        axes.annotate(
            mark.text,
            (mark.length, mark.value),
            xytext=(-8, 7),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
            weight="bold",
            bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
        )
    return sheet.figure


def _draw_curves(axes: Any, report: CostReport, *, width: float, height: float) -> None:
    """Draw the lines with their names beside their ends."""
    curves = sorted(report.curves, key=lambda curve: -curve.points[-1][1])
    to_fraction = (axes.transScale + axes.transLimits).transform
    ends = [height * (1 - to_fraction(curve.points[-1])[1]) for curve in curves]
    for curve, end, label in zip(
        curves, ends, spread_labels(ends, spacing=FILE_LINE_HEIGHT, top=0.0), strict=True
    ):
        colour = _colour(report, curve.family)
        axes.plot(*zip(*curve.points, strict=True), color=colour, lw=1.6)
        axes.annotate(
            printable(curve.name),
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
