"""Figures of claims, the same on a page and in a file: curves with error bands, and matrices."""

from __future__ import annotations

import math
from itertools import cycle
from pathlib import Path

from markupsafe import Markup

from regard.core.errors import RegardError
from regard.core.formatting import number_text
from regard.core.records.claim import Curve, CurveFigure, Figure, MatrixFigure
from regard.views.charts.figure_file import validate_figure_suffix, write_figure
from regard.views.charts.heatmap import colour_ramp, value_matrix
from regard.views.charts.plot import DASHES, TONES, Line, Plot, fitted_axis, plot_chart, segments
from regard.views.charts.svg import MARGIN, text_block

WIDTH, HEIGHT = 520.0, 266.0


def claim_charts(figure: Figure) -> list[Markup]:
    """The curves with their legend, or the matrix and its colour scale; empty if there are none."""
    if isinstance(figure, CurveFigure):
        charts = [curves_chart(figure)]
    else:
        rows, columns = figure.row_labels, figure.column_labels
        charts = [value_matrix(figure.values, rows=rows, columns=columns, title=figure.title)]
        charts.append(_ramp(figure))
    return [chart for chart in charts if chart]


def curves_chart(figure: CurveFigure) -> Markup:
    """Lines whose label has a colour and dashes each; empty if no point is visible."""
    x_log, y_log = figure.x_scale == "log", figure.y_scale == "log"
    points = [point for curve in figure.curves for part in visible(figure, curve) for point in part]
    ys = [y for _, y in points]
    ys += [end for curve in figure.curves for end in (*curve.low, *curve.high)]
    xs = [x for x, _ in points] + [x for x, _ in figure.marks]
    x = fitted_axis(figure.x_label, xs, log=x_log, padding=0.03)
    y = fitted_axis(figure.y_label, ys, log=y_log, padding=0.05)
    if not points or x is None or y is None:
        return Markup()
    dashes = label_dashes(figure)
    tones = {label: number % TONES for number, label in enumerate(dashes)}
    lines = [
        Line(
            curve.label,
            list(zip(curve.x, curve.y, strict=True)),
            tone=tones[curve.label],
            dash=dashes[curve.label],
            low=curve.low,
            high=curve.high,
            points_only=curve.points_only,
        )
        for curve in figure.curves
    ]
    description = f"{figure.title}: {figure.y_label} against {figure.x_label}."
    plot = Plot(description, x, y, lines, marks=figure.marks, legend=True)
    return plot_chart(plot._replace(width=WIDTH, height=HEIGHT))


def label_dashes(figure: CurveFigure) -> dict[str, int]:
    """The dashes of each label: all styles in turn or, if some curves are dashed, half of them each."""
    if any(curve.dashed for curve in figure.curves):
        styles = {False: cycle((0, 2)), True: cycle((1, 3))}
    else:
        styles = {False: cycle(range(DASHES))}
    found: dict[str, int] = {}
    for curve in figure.curves:
        if curve.label not in found:
            found[curve.label] = next(styles[curve.dashed])
    return found


def visible(figure: CurveFigure, curve: Curve) -> list[list[tuple[float, float]]]:
    """The points of a curve within the domains of both scales, split at those that are not."""
    points = list(zip(curve.x, curve.y, strict=True))
    return segments(points, x_log=figure.x_scale == "log", y_log=figure.y_scale == "log")


def has_gaps(figure: Figure) -> bool:
    """Whether some point of a curve is not visible."""
    return isinstance(figure, CurveFigure) and any(
        sum(map(len, visible(figure, curve))) < len(curve.x) for curve in figure.curves
    )


def _ramp(figure: MatrixFigure) -> Markup:
    numbers = [value for row in figure.values for value in row if math.isfinite(value)]
    limit = max(map(abs, numbers), default=0.0)
    return colour_ramp(number_text(limit), signed=min(numbers) < 0) if limit else Markup()


def draw_claim(figure: Figure, *, path: Path) -> None:
    """Draw the figure of a claim to `path`, an .svg or .png file."""
    validate_figure_suffix(path)
    charts = claim_charts(figure)
    if not charts:
        missing = "point within its scales" if isinstance(figure, CurveFigure) else "cells"
        raise RegardError(
            f"The figure '{figure.title}' has no {missing}. Run the claim with other settings."
        )
    title = text_block(figure.title, max_width=WIDTH - 2 * MARGIN, title=True)
    write_figure(title, *charts, path=path)
