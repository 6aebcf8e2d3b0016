"""The picture of how a run learned: training loss above, the metric on held-out data below, by step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.views.figure_file import (
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    write_figure,
)

# Inches.
WIDTH, PANEL_HEIGHT, LEFT, RIGHT, TOP, BOTTOM, GAP = 7.2, 2.1, 0.85, 0.75, 0.5, 0.6, 0.55
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

    A row has a "step" and a "loss", or "dev" scores by name, or both; `metric` is such a name. A
    kind of which there is no row is left out. A value that is no finite number leaves a gap.
    """
    require_figure_suffix(path)
    loss = _curve(
        "training loss",
        LOSS_COLOUR,
        ((number, row, row["loss"]) for number, row in enumerate(rows, start=1) if "loss" in row),
    )
    dev = _curve(
        f"dev {metric}",
        DEV_COLOUR,
        (
            (number, row, look_up("metric", metric, _scores(row["dev"], row=number)))
            for number, row in enumerate(rows, start=1)
            if "dev" in row
        ),
    )
    curves = [curve for curve in (loss, dev) if curve.steps]
    if not curves:
        raise RegardError(
            f"None of the {len(rows)} rows has a 'loss' or 'dev' scores, so there is no curve to "
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


def _scores(dev: Any, *, row: int) -> Mapping[str, Any]:
    if not isinstance(dev, Mapping):
        raise RegardError(
            f"Row {row} has {dev!r} as its dev scores, which are a value a name. "
            "Give rows as a run wrote them."
        )
    return dev


def _number(value: Any, *, name: str, row: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RegardError(
            f"Row {row} has {value!r} as its {name}, which is not a number. "
            "Give rows as a run wrote them."
        )
    return float(value) if math.isfinite(value) else math.nan


def _figure(curves: Sequence[Curve]) -> Any:
    height = TOP + len(curves) * (PANEL_HEIGHT + GAP) - GAP + BOTTOM
    sheet = Sheet(width=WIDTH, height=height)
    last = max(step for curve in curves for step in curve.steps)
    for number, curve in enumerate(curves):
        top = TOP + number * (PANEL_HEIGHT + GAP)
        axes = sheet.axes(LEFT, top, WIDTH - LEFT - RIGHT, PANEL_HEIGHT)
        marker = "o" if len(curve.steps) < MARKED_POINTS else ""
        axes.plot(curve.steps, curve.values, color=curve.colour, lw=1.6, marker=marker, ms=3.5)
        axes.grid(color=GRID)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(0, last * 1.02 or 1)
        axes.ticklabel_format(useOffset=False)
        sheet.text(LEFT, top - 0.12, curve.name, size=11, weight="bold", color=curve.colour)
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
