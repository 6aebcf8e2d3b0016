"""Cost curves against sequence length on log-log scales, one labelled line per mechanism.

On these scales linear cost has slope one and quadratic cost slope two. `cost_charts` shows the declared
FLOPs of an overview, one chart per head width, since narrow heads are cheaper for any mechanism;
mechanisms of equal cost share a line. `cost_curves_chart` and `draw_cost_curves` show the predicted time
of a cost report, or its FLOPs without a calibration, with crossover points marked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.records.cost import CostReport, Crossover
from regard.core.records.overview import MechanismRecord, Overview
from regard.views.charts.axes import Scale, grid, line_to_label
from regard.views.charts.figure_file import text_block, validate_figure_suffix, write_figure
from regard.views.pages.html import Markup, element, joined, scrolled, svg
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


WIDTH = 1000.0
LEFT, RIGHT, TOP, BELOW = 64.0, 700.0, 24.0, 50.0
# Height of a power of ten in an overview, the same in every chart, so that slopes can be compared.
POWER_HEIGHT = 84.0
REPORT_HEIGHT = 520.0
LINE_HEIGHT = 17.0


class Line(NamedTuple):
    """A labelled line in the colour of a CSS class, with values above 0 by length."""

    name: str
    colour: str
    points: tuple[tuple[int, float], ...]


def cost_charts(overview: Overview) -> Markup:
    """One titled chart per head width, widest first."""
    charts = []
    for width in head_dims(overview):
        title, chart = head_dim_title(width), cost_chart(overview, width=width)
        if chart:
            charts.append(joined(element("h3", title), scrolled(chart, title)))
    return joined(*charts)


def cost_chart(overview: Overview, *, width: int) -> Markup:
    """FLOPs against length for one head width; empty with fewer than two lengths."""
    names: dict[tuple[int, tuple[tuple[int, float], ...]], list[str]] = {}
    for record in overview.mechanisms:
        if record.cost_head_dim == width:
            found = ((each.length, float(each.cost.flops)) for each in costs_by_length(record))
            points = tuple(point for point in found if point[1] > 0)
            if points:
                key = overview.families.index(record.family), points
                names.setdefault(key, []).append(record.name)
    return _chart(
        [Line(", ".join(n), f"family-{family}", points) for (family, points), n in names.items()],
        unit="FLOPs",
        text=lambda value: count_text(round(value)),
        description=f"FLOPs against length, {head_dim_title(width)}; the table has the numbers.",
    )


def _chart(
    lines: list[Line],
    *,
    unit: str,
    text: Callable[[float], str],
    description: str,
    height: float = 0.0,
    marks: Sequence[CrossoverLabel] = (),
) -> Markup:
    """The lines with names beside their ends; empty with fewer than two lengths."""
    lengths = sorted({length for line in lines for length, _ in line.points})
    if len(lengths) < 2:
        return Markup("")
    values = [value for line in lines for _, value in line.points]
    lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    highest = max(highest, lowest + 1)
    bottom = TOP + (height or max((highest - lowest) * POWER_HEIGHT, len(lines) * LINE_HEIGHT))
    across = Scale(float(lengths[0]), float(lengths[-1]), LEFT, RIGHT, logarithmic=True)
    up = Scale(10.0**lowest, 10.0**highest, bottom, TOP, logarithmic=True)
    lines = sorted(lines, key=lambda line: -line.points[-1][1])
    labels = spread_labels([up.position(line.points[-1][1]) for line in lines])
    powers = range(math.ceil(math.log2(lengths[0])), math.floor(math.log2(lengths[-1])) + 1)
    return svg(
        grid(
            across,
            up,
            x_ticks=[(2.0**power, spaced(2**power)) for power in powers],
            y_ticks=[(10.0**p, _short(text(10.0**p))) for p in range(lowest, highest + 1)],
        ),
        element("text", "tokens", class_="unit", x=RIGHT, y=bottom + 38, text_anchor="end"),
        element("text", unit, class_="unit", x=LEFT, y=TOP - 10),
        *(
            _line(line, across=across, up=up, text=text, label=label)
            for line, label in zip(lines, labels, strict=True)
        ),
        *(_crossover(mark, across=across, up=up) for mark in marks),
        width=WIDTH,
        height=max(bottom, *labels) + BELOW,
        class_="cost-chart",
        aria_label=description,
    )


def _short(tick: str) -> str:
    return tick.replace(".00", "").replace(".0", "")


def _line(
    line: Line, *, across: Scale, up: Scale, text: Callable[[float], str], label: float
) -> Markup:
    length, value = line.points[-1]
    points = [(across.position(float(n)), up.position(v)) for n, v in line.points]
    return element(
        "g",
        element("title", f"{line.name}: {text(value)} at {length} tokens"),
        line_to_label(line.name, points, label=(points[-1][0] + 30, label)),
        class_=f"line {line.colour}",
    )


def _crossover(mark: CrossoverLabel, *, across: Scale, up: Scale) -> Markup:
    circles = [
        element(
            "circle",
            element("title", each.sentence),
            cx=across.position(float(each.length or 0)),
            cy=up.position(each.value or 0.0),
            r=6,
        )
        for each in mark.crossovers
    ]
    x, y = across.position(float(mark.length)) - 8, up.position(mark.value) - 11
    name = element("text", mark.text, x=x, y=y, text_anchor="end")
    return element("g", *circles, name, class_="crossover")


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


# Crossovers within this factor share a label.
CLOSE_RATIO = 1.25


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
    drawn = {curve.name for curve in report.curves}
    lengths = [length for curve in report.curves for length, value in curve.points if value > 0]
    return [
        crossover
        for crossover in report.crossovers
        if crossover.length is not None
        and crossover.value is not None
        and {crossover.baseline, crossover.candidate} <= drawn
        and min(lengths) < crossover.length < max(lengths)
    ]


def value_name(report: CostReport) -> str:
    """Name of the y-axis."""
    return "predicted time" if report.has_times else "FLOPs"


def cost_curves_chart(report: CostReport) -> Markup:
    """Predicted time against length as SVG; empty with fewer than two lengths."""
    lines = []
    for curve in report.curves:
        index = "layer" if curve.family == "layer" else report.families.index(curve.family)
        points = tuple(point for point in curve.points if point[1] > 0)
        if points:
            lines.append(Line(curve.name, f"family-{index}", points))
    return _chart(
        lines,
        unit=value_name(report),
        text=seconds_text if report.has_times else lambda value: count_text(round(value)),
        description=f"{value_name(report)} against length; crossovers are listed below.",
        height=REPORT_HEIGHT,
        marks=crossover_labels(report),
    )


def draw_cost_curves(report: CostReport, *, path: Path) -> None:
    """Draw predicted time against length to `path`, an .svg or .png file."""
    validate_figure_suffix(path)
    chart = cost_curves_chart(report)
    if not chart:
        raise RegardError(
            "There are no curves with two lengths or more. Select mechanisms that support this shape."
        )
    write_figure(
        text_block(f"{value_name(report)} against length", title=True),
        text_block(setting_text(report, with_length=False)),
        text_block(machine_text(report)),
        chart,
        path=path,
    )
