"""Learning curves: of all variants of a study for a page, and of one run for a figure file.

Study: validation score against steps, tokens, FLOPs or time; a thick line for the mean over seeds, thin
lines for the seeds. Metrics where lower is better and that vary by a large factor have a logarithmic
scale. Run: training loss above, validation metric below, by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.core.records.claim import Curve, CurveFigure
from regard.core.records.study import CurvePoint, StudyRecord
from regard.core.registry import lookup
from regard.views.charts import claim_curves
from regard.views.charts.axes import Scale, fit_scale, grid, line_to_label, tick_text, truncate
from regard.views.charts.cost_curves import spread_labels
from regard.views.charts.figure_file import text_block, validate_figure_suffix, write_figure
from regard.views.charts.variants import score_text, scored, variant_class, variant_number
from regard.views.pages.html import Markup, element, svg

WIDTH = 760.0
LEFT, RIGHT, TOP, MIN_HEIGHT, BELOW = 50.0, 560.0, 30.0, 330.0, 52.0
LINE_HEIGHT, MAX_LABEL_LENGTH = 16.0, 24
# Scores that span more than this factor get a logarithmic scale.
LOG_SCALE_RATIO = 3.0

Point = tuple[float, float]


class Axis(NamedTuple):
    """The x-axis of a learning curve: a resource and its units."""

    key: str
    name: str
    value: Callable[[CurvePoint], float]
    units: tuple[tuple[str, float], ...]


_THOUSANDS = (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("10⁹", 1e9), ("10¹²", 1e12))
AXES = (
    Axis("steps", "steps", lambda point: float(point.step), (("", 1.0), ("thousand", 1e3))),
    Axis("tokens", "tokens", lambda point: float(point.tokens), _THOUSANDS),
    Axis("flops", "FLOPs", lambda point: point.flops, (*_THOUSANDS, ("10¹⁵", 1e15))),
    Axis("time", "time", lambda point: point.seconds, (("s", 1.0), ("min", 60.0), ("h", 3600.0))),
)


class Line(NamedTuple):
    """Curves of one variant: one per seed, and their mean over common steps."""

    name: str
    seeds: list[list[Point]]
    mean: list[Point]


def curves_chart(record: StudyRecord, axis: Axis) -> Markup:
    """The chart as SVG; empty if no curve has two points or the axis was not recorded."""
    lines = [line for variant in scored(record) if (line := _line(record, variant.name, axis)).mean]
    points = [point for line in lines for curve in line.seeds for point in curve]
    if not points or max(x for x, _ in points) <= 0:
        return Markup("")
    bottom = TOP + max(MIN_HEIGHT, LINE_HEIGHT * len(lines))
    unit, size = _unit(axis, max(x for x, _ in points))
    across = Scale(0.0, max(x for x, _ in points) / size, LEFT, RIGHT)
    heights = [y for _, y in points]
    up = fit_scale(
        heights,
        start=bottom,
        end=TOP,
        logarithmic=record.lower_is_better and max(heights) > LOG_SCALE_RATIO * min(heights) > 0,
        padding=0.03,
    )
    lines.sort(key=lambda line: -line.mean[-1][1])
    ends = [up.position(line.mean[-1][1]) for line in lines]
    labels = spread_labels(ends, spacing=LINE_HEIGHT, top=TOP)
    name = f"{axis.name}, {unit}" if unit else axis.name
    return svg(
        grid(across, up, y_ticks=[(tick, tick_text(tick)) for tick in up.ticks(count=6)]),
        element(
            "text", f"{record.primary.label} on validation", class_="unit", x=LEFT - 36, y=TOP - 12
        ),
        element("text", name, class_="unit", x=RIGHT, y=bottom + 40, text_anchor="end"),
        *(
            _drawn(record, line, across=across, up=up, size=size, label=label)
            for line, label in zip(lines, labels, strict=True)
        ),
        width=WIDTH,
        height=max(bottom, *labels) + BELOW,
        class_="chart curves-chart",
        aria_label=f"{record.metric} on validation against {axis.name}; the table has the last scores.",
    )


def _line(record: StudyRecord, name: str, axis: Axis) -> Line:
    curves = [run.curve for run in record.runs_of(name) if len(run.curve) > 1]
    seeds = [[(axis.value(point), point.score) for point in curve] for curve in curves]
    return Line(name, seeds, _mean(curves, axis))


def _mean(curves: Sequence[Sequence[CurvePoint]], axis: Axis) -> list[Point]:
    """Mean over seeds at the steps that all of them have."""
    if not curves:
        return []
    by_step = [{point.step: point for point in curve} for curve in curves]
    steps = sorted(set.intersection(*(set(curve) for curve in by_step)))
    return [
        (
            sum(axis.value(curve[step]) for curve in by_step) / len(by_step),
            sum(curve[step].score for curve in by_step) / len(by_step),
        )
        for step in steps
    ]


def _unit(axis: Axis, largest: float) -> tuple[str, float]:
    fitting = [unit for unit in axis.units if largest >= 2 * unit[1]]
    # A few thousand steps are easier to read in full.
    return fitting[-1] if fitting and (largest >= 2e4 or axis.key == "time") else axis.units[0]


def _drawn(
    record: StudyRecord, line: Line, *, across: Scale, up: Scale, size: float, label: float
) -> Markup:
    def positions(points: Sequence[Point]) -> list[Point]:
        return [(across.position(x / size), up.position(y)) for x, y in points]

    text = score_text(line.mean[-1][1], decimals=record.primary.digits)
    name = truncate(line.name, MAX_LABEL_LENGTH)
    seeds = [
        element(
            "polyline",
            points=" ".join(f"{x:.1f},{y:.1f}" for x, y in positions(curve)),
            class_="seed",
        )
        for curve in line.seeds
        if len(line.seeds) > 1
    ]
    return element(
        "g",
        element("title", f"{line.name}: {text} at the end"),
        *seeds,
        line_to_label(name, positions(line.mean), label=(RIGHT + 26, label)),
        class_=f"curve {variant_class(record, line.name)}",
        data_variant=variant_number(record, line.name),
    )


def draw_learning_curve(rows: Sequence[Mapping[str, Any]], *, metric: str, path: Path) -> None:
    """Draw the rows of a run's `metrics.jsonl` to `path`, an .svg or .png file.

    A row has a "step" and a "loss", "validation" scores by name, or both; `metric` is one of these names.
    A panel without rows is omitted. Values that are not finite leave a gap.
    """
    validate_figure_suffix(path)
    loss = _curve(
        "training loss",
        ((number, row, row["loss"]) for number, row in enumerate(rows, start=1) if "loss" in row),
    )
    validation = _curve(
        f"validation {metric}",
        (
            (number, row, lookup("metric", metric, _scores(row["validation"], row=number)))
            for number, row in enumerate(rows, start=1)
            if "validation" in row
        ),
    )
    curves = [curve for curve in (loss, validation) if curve.x]
    if not curves:
        raise RegardError(
            f"None of the {len(rows)} rows has a 'loss' or 'validation' scores, so there is no curve. "
            "Train and log at least one step."
        )
    steps = [0.0, *(step for curve in curves for step in curve.x)]
    write_figure(*(part for curve in curves for part in _panel(curve, steps)), path=path)


def _panel(curve: Curve, steps: Sequence[float]) -> list[Markup]:
    """One titled chart; all charts span the same steps."""
    last = f"last: {curve.y[-1]:.4g}"
    figure = CurveFigure(title=curve.label, x_label="step", y_label=last, curves=(curve,))
    chart = claim_curves.curves_chart(figure, x_range=steps)
    title = text_block(curve.label, title=True)
    return [title, chart or text_block("No value is finite.")]


def _curve(name: str, points: Iterable[tuple[int, Mapping[str, Any], Any]]) -> Curve:
    steps, values = [], []
    for number, row, value in points:
        step = _number(row.get("step"), name="step", row=number)
        if math.isnan(step) or step < 0:
            raise RegardError(
                f"Row {number} has step={row['step']}; steps must be 0 or more. "
                "Pass the rows of metrics.jsonl."
            )
        steps.append(step)
        values.append(_number(value, name=name, row=number))
    return Curve(label=name, x=tuple(steps), y=tuple(values))


def _scores(validation: Any, *, row: int) -> Mapping[str, Any]:
    if not isinstance(validation, Mapping):
        raise RegardError(
            f"Row {row} has validation={validation!r}; expected scores by name. "
            "Pass the rows of metrics.jsonl."
        )
    return validation


def _number(value: Any, *, name: str, row: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegardError(
            f"Row {row} has {name}={value!r}, which is not a number. "
            "Pass the rows of metrics.jsonl."
        )
    return float(value) if math.isfinite(value) else math.nan
