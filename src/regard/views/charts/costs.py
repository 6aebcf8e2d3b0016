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

from markupsafe import Markup

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.formatting import flops_text, integer_text, seconds_text
from regard.core.records.cost import CostReport, Crossover
from regard.core.records.overview import MechanismRecord, Overview
from regard.views.charts.axes import Scale
from regard.views.charts.figure_file import validate_figure_suffix, write_figure
from regard.views.charts.plot import TONES, Axis, Dot, Line, Plot, plot_chart
from regard.views.charts.svg import text_block
from regard.views.text.costs import machine_text, setting_text

WIDTH, LABEL_SPACE, REPORT_HEIGHT = 1000.0, 270.0, 520.0
# Height of a power of ten in an overview, the same in every chart, so that slopes can be compared.
POWER_HEIGHT = 84.0
# Crossovers within this factor share a label.
CLOSE_RATIO = 1.25


class LengthCost(NamedTuple):
    """A declared cost; `doubling_factor` is FLOPs at twice the length over FLOPs at this length."""

    length: int
    cost: Cost
    form: str | None
    doubling_factor: float


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


def head_dims(overview: Overview) -> list[int]:
    """Head widths of the declared costs, descending."""
    return sorted({record.cost_head_dim for record in overview.mechanisms}, reverse=True)


def cost_charts(overview: Overview) -> dict[str, Markup]:
    """FLOPs against length by title, one chart per head width, widest first."""
    charts = {f"head_dim = {dim}": _head_dim_chart(overview, dim) for dim in head_dims(overview)}
    return {title: chart for title, chart in charts.items() if chart}


def _head_dim_chart(overview: Overview, head_dim: int) -> Markup:
    names: dict[tuple[int, tuple[tuple[int, int], ...]], list[str]] = {}
    for record in overview.mechanisms:
        if record.cost_head_dim == head_dim:
            points = tuple((at.length, at.cost.flops) for at in costs_by_length(record))
            key = overview.families.index(record.family), points
            names.setdefault(key, []).append(record.name)
    return _chart(
        [Line(", ".join(each), points, tone) for (tone, points), each in names.items()],
        name="FLOPs",
        text=flops_text,
        description=f"FLOPs against length, head_dim = {head_dim}; the table has the numbers.",
    )


def cost_curves_chart(report: CostReport) -> Markup:
    """Predicted time against length as SVG; empty with fewer than two lengths."""
    tones = {family: number for number, family in enumerate(report.families)} | {"layer": "ink"}
    return _chart(
        [Line(curve.name, curve.points, tones[curve.family]) for curve in report.curves],
        name=value_name(report),
        text=seconds_text if report.has_times else flops_text,
        description=f"{value_name(report)} against length; crossovers are listed below.",
        height=REPORT_HEIGHT,
        dots=[dot for group in crossover_groups(report) for dot in _crossover_dots(group)],
    )


def _chart(
    lines: Sequence[Line],
    *,
    name: str,
    text: Callable[[float], str],
    description: str,
    height: float | None = None,
    dots: Sequence[Dot] = (),
) -> Markup:
    """The lines, named at their ends; empty with fewer than two lengths."""
    drawn = []
    for line in lines:
        points = [(float(length), float(value)) for length, value in line.points if value > 0]
        if points:
            length, value = points[-1]
            title = f"{line.label}: {text(value)} at {integer_text(int(length))} tokens"
            tone = line.tone % TONES if isinstance(line.tone, int) else line.tone
            drawn.append(line._replace(points=points, title=title, tone=tone))
    lengths = {length for line in drawn for length, _ in line.points}
    if len(lengths) < 2:
        return Markup()
    values = [value for line in drawn for _, value in line.points]
    lowest = math.floor(math.log10(min(values)))
    highest = max(math.ceil(math.log10(max(values))), lowest + 1)
    short, long = min(lengths), max(lengths)
    twos = range(math.ceil(math.log2(short)), math.floor(math.log2(long)) + 1)
    tens = [10.0**power for power in range(lowest, highest + 1)]
    across = Scale(short, long, 0.0, 1.0, logarithmic=True)
    up = Scale(tens[0], tens[-1], 0.0, 1.0, logarithmic=True)
    plot = Plot(
        description,
        Axis("tokens", across, [(2.0**power, integer_text(2**power)) for power in twos]),
        Axis(name, up, [(ten, text(ten).replace(".00", "").replace(".0", "")) for ten in tens]),
        sorted(drawn, key=lambda line: -line.points[-1][1]),
        dots,
        width=WIDTH,
        height=height or (highest - lowest) * POWER_HEIGHT,
        label_space=LABEL_SPACE,
        class_="cost-chart",
    )
    return plot_chart(plot)


def crossover_groups(report: CostReport) -> list[list[Crossover]]:
    """Crossovers within the chart, of curves that are drawn; those of similar length together."""
    names = {curve.name for curve in report.curves}
    lengths = [length for curve in report.curves for length, value in curve.points if value > 0]
    groups: list[list[Crossover]] = []
    for crossover in sorted(report.crossovers, key=lambda each: each.length or 0):
        length, pair = crossover.length or 0, {crossover.baseline, crossover.candidate}
        is_within = min(lengths, default=0) < length < max(lengths, default=0)
        if not is_within or (crossover.value or 0) <= 0 or not pair <= names:
            continue
        if groups and length < CLOSE_RATIO * (groups[-1][-1].length or 0):
            groups[-1].append(crossover)
        else:
            groups.append([crossover])
    return groups


def _crossover_dots(group: Sequence[Crossover]) -> list[Dot]:
    """A circle for each crossover; the last one has the label."""
    first, last = group[0].length, group[-1].length
    label = f"n = {first}" if first == last else f"n = {first}–{last}"
    circled = Dot(0.0, 0.0, "", tone="ink", style="circled", radius=6.0)
    dots = [
        circled._replace(x=float(each.length or 0), y=each.value or 0.0, title=each.sentence)
        for each in group
    ]
    return [*dots[:-1], dots[-1]._replace(label=label)]


def value_name(report: CostReport) -> str:
    """Name of the y-axis."""
    return "predicted time" if report.has_times else "FLOPs"


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
