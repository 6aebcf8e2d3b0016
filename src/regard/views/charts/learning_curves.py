"""Learning curves of all variants: the mean over seeds as a line named at its end, each seed as a thin one.

What was spent by then may be counted in steps, tokens, operations or seconds. Where error rates fall so
far that their ends would be one line, they are drawn on a logarithmic scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.core.records.study import CurvePoint, StudyRecord
from regard.core.registry import look_up
from regard.views.charts.axes import Scale, scale_around, tick_across, tick_down, tick_text
from regard.views.charts.cost_curves import spread
from regard.views.charts.figure_file import (
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    write_figure,
)
from regard.views.charts.variants import (
    score_decimals,
    score_text,
    scored,
    shortened_name,
    variant_class,
    variant_number,
)
from regard.views.pages.html import Markup, element

WIDTH = 760.0
LEFT, RIGHT, TOP, LEAST_HEIGHT, ROOM_BELOW = 50.0, 560.0, 30.0, 330.0, 52.0
LINE_HEIGHT, LONGEST_LABEL = 16.0, 24
# Scores that span more than this factor get a logarithmic scale.
FAR_APART = 3.0

Point = tuple[float, float]


class Axis(NamedTuple):
    """What a curve may run along."""

    key: str
    name: str
    spent: Callable[[CurvePoint], float]
    units: tuple[tuple[str, float], ...]


_THOUSANDS = (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("10⁹", 1e9), ("10¹²", 1e12))
AXES = (
    Axis("steps", "steps", lambda point: float(point.step), (("", 1.0), ("thousand", 1e3))),
    Axis("tokens", "tokens", lambda point: float(point.tokens), _THOUSANDS),
    Axis("operations", "operations", lambda point: point.operations, (*_THOUSANDS, ("10¹⁵", 1e15))),
    Axis("time", "time", lambda point: point.seconds, (("s", 1.0), ("min", 60.0), ("h", 3600.0))),
)


class Line(NamedTuple):
    """The curves of one variant: its seeds', and their mean where they have steps in common."""

    name: str
    seeds: list[list[Point]]
    mean: list[Point]


def curves_chart(record: StudyRecord, axis: Axis) -> Markup:
    """The chart; nothing where no curve has two points, or nothing was counted along this axis."""
    lines = [line for variant in scored(record) if (line := _line(record, variant.name, axis)).mean]
    points = [point for line in lines for curve in line.seeds for point in curve]
    if not points or max(x for x, _ in points) <= 0:
        return Markup("")
    bottom = TOP + max(LEAST_HEIGHT, LINE_HEIGHT * len(lines))
    unit, size = _unit(axis, max(x for x, _ in points))
    across = Scale(0.0, max(x for x, _ in points) / size, LEFT, RIGHT)
    heights = [y for _, y in points]
    up = scale_around(
        heights,
        start=bottom,
        end=TOP,
        logarithmic=record.lower_is_better and max(heights) > FAR_APART * min(heights) > 0,
        air=0.03,
    )
    lines.sort(key=lambda line: -line.mean[-1][1])
    ends = [up.place(line.mean[-1][1]) for line in lines]
    labels = spread(ends, least=LINE_HEIGHT, top=TOP)
    name = f"{axis.name}, {unit}" if unit else axis.name
    return element(
        "svg",
        *(
            tick_across(across.place(t), tick_text(t), top=TOP, bottom=bottom)
            for t in across.ticks()
        ),
        *(
            tick_down(up.place(tick), tick_text(tick), left=LEFT, right=RIGHT)
            for tick in up.ticks(about=6)
        ),
        element("text", f"{record.metric} on validation", class_="unit", x=LEFT - 36, y=TOP - 12),
        element("text", name, class_="unit", x=RIGHT, y=bottom + 40, text_anchor="end"),
        *(
            _drawn(record, line, across=across, up=up, size=size, label=label)
            for line, label in zip(lines, labels, strict=True)
        ),
        viewBox=f"0 0 {WIDTH:.0f} {max(bottom, *labels) + ROOM_BELOW:.0f}",
        class_="chart curves-chart",
        role="img",
        aria_label=f"{record.metric} on validation against {axis.name}; the table has the last scores.",
    )


def _line(record: StudyRecord, name: str, axis: Axis) -> Line:
    curves = [run.curve for run in record.runs_of(name) if len(run.curve) > 1]
    seeds = [[(axis.spent(point), point.score) for point in curve] for curve in curves]
    return Line(name, seeds, _mean(curves, axis))


def _mean(curves: Sequence[Sequence[CurvePoint]], axis: Axis) -> list[Point]:
    """Over the steps that all seeds were looked at."""
    if not curves:
        return []
    by_step = [{point.step: point for point in curve} for curve in curves]
    steps = sorted(set.intersection(*(set(curve) for curve in by_step)))
    return [
        (
            sum(axis.spent(curve[step]) for curve in by_step) / len(by_step),
            sum(curve[step].score for curve in by_step) / len(by_step),
        )
        for step in steps
    ]


def _unit(axis: Axis, largest: float) -> tuple[str, float]:
    fitting = [unit for unit in axis.units if largest >= 2 * unit[1]]
    # A few thousand steps are read more easily in full.
    return fitting[-1] if fitting and (largest >= 2e4 or axis.key == "time") else axis.units[0]


def _drawn(
    record: StudyRecord, line: Line, *, across: Scale, up: Scale, size: float, label: float
) -> Markup:
    def path(points: Sequence[Point]) -> str:
        return " ".join(f"{across.place(x / size):.1f},{up.place(y):.1f}" for x, y in points)

    x, score = line.mean[-1]
    end, height = across.place(x / size), up.place(score)
    beside = RIGHT + 26
    leader = f"M{end + 4:.1f} {height:.1f} C{end + 20:.1f} {height:.1f} "
    leader += f"{beside - 18:.1f} {label:.1f} {beside - 4:.1f} {label:.1f}"
    said = score_text(score, decimals=score_decimals(record))
    seeds = [
        element("polyline", points=path(curve), class_="seed")
        for curve in line.seeds
        if len(line.seeds) > 1
    ]
    return element(
        "g",
        element("title", f"{line.name}: {said} at the end"),
        *seeds,
        element("polyline", points=path(line.mean), class_="reach"),
        element("polyline", points=path(line.mean), class_="stroke"),
        element("path", d=leader, class_="leader"),
        element("circle", cx=end, cy=height, r=3),
        element("text", shortened_name(line.name, LONGEST_LABEL), x=beside, y=label + 4),
        class_=f"curve {variant_class(record, line.name)}",
        data_variant=variant_number(record, line.name),
    )


# The picture of how a run learned: training loss above, the metric on held-out data below, by step.


# Inches.
FILE_WIDTH, PANEL_HEIGHT, FILE_LEFT, FILE_RIGHT, FILE_TOP, BOTTOM, GAP = (
    7.2,
    2.1,
    0.85,
    0.75,
    0.5,
    0.6,
    0.55,
)
LOSS_COLOUR, DEV_COLOUR = "#0969da", "#bc4c00"
GRID = "#eaeef2"
# Fewer points than this are marked one by one.
MARKED_POINTS = 40


class Curve(NamedTuple):
    """The values of one panel and the steps they were measured at."""

    name: str
    colour: str
    steps: list[float]
    values: list[float]


def draw_learning_curve(rows: Sequence[Mapping[str, Any]], *, metric: str, path: Path) -> None:
    """Write the picture of the rows of a run's `metrics.jsonl` to `path`, an .svg or a .png.

    A row has a "step" and a "loss", or "validation" scores by name, or both; `metric` is such a name. A
    kind of which there is no row is left out. A value that is no finite number leaves a gap.
    """
    require_figure_suffix(path)
    loss = _curve(
        "training loss",
        LOSS_COLOUR,
        ((number, row, row["loss"]) for number, row in enumerate(rows, start=1) if "loss" in row),
    )
    validation = _curve(
        f"validation {metric}",
        DEV_COLOUR,
        (
            (number, row, look_up("metric", metric, _scores(row["validation"], row=number)))
            for number, row in enumerate(rows, start=1)
            if "validation" in row
        ),
    )
    curves = [curve for curve in (loss, validation) if curve.steps]
    if not curves:
        raise RegardError(
            f"None of the {len(rows)} rows has a 'loss' or 'validation' scores, so there is no curve to "
            "draw. Let the run take a step and log it first."
        )
    with figure_settings():
        write_figure(_figure(curves), path=path)


def _curve(name: str, colour: str, points: Iterable[tuple[int, Mapping[str, Any], Any]]) -> Curve:
    curve = Curve(shown(name), colour, [], [])
    for number, row, value in points:
        step = _number(row.get("step"), name="step", row=number)
        if math.isnan(step) or step < 0:
            raise RegardError(
                f"Row {number} has {row['step']} as its step, and steps are counted from 0. "
                "Give rows as a run wrote them."
            )
        curve.steps.append(step)
        curve.values.append(_number(value, name=name, row=number))
    return curve


def _scores(validation: Any, *, row: int) -> Mapping[str, Any]:
    if not isinstance(validation, Mapping):
        raise RegardError(
            f"Row {row} has {validation!r} as its validation scores, which are a value a name. "
            "Give rows as a run wrote them."
        )
    return validation


def _number(value: Any, *, name: str, row: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegardError(
            f"Row {row} has {value!r} as its {name}, which is not a number. "
            "Give rows as a run wrote them."
        )
    return float(value) if math.isfinite(value) else math.nan


def _figure(curves: Sequence[Curve]) -> Any:
    height = FILE_TOP + len(curves) * (PANEL_HEIGHT + GAP) - GAP + BOTTOM
    sheet = Sheet(width=FILE_WIDTH, height=height)
    last = max(step for curve in curves for step in curve.steps)
    for number, curve in enumerate(curves):
        top = FILE_TOP + number * (PANEL_HEIGHT + GAP)
        axes = sheet.axes(FILE_LEFT, top, FILE_WIDTH - FILE_LEFT - FILE_RIGHT, PANEL_HEIGHT)
        marker = "o" if len(curve.steps) < MARKED_POINTS else ""
        axes.plot(curve.steps, curve.values, color=curve.colour, lw=1.6, marker=marker, ms=3.5)
        axes.grid(color=GRID)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(0, last * 1.02 or 1)
        axes.ticklabel_format(useOffset=False)
        sheet.text(FILE_LEFT, top - 0.12, curve.name, size=11, weight="bold", color=curve.colour)
        _mark_last(axes, curve)
    axes.set_xlabel("step")
    return sheet.figure


def _mark_last(axes: Any, curve: Curve) -> None:
    """The last value in figures, beside its point."""
    step, value = curve.steps[-1], curve.values[-1]
    if math.isfinite(value) and math.isfinite(step):
        axes.annotate(
            f"{value:.4g}", (step, value), xytext=(7, 0), textcoords="offset points", va="center"
        )
