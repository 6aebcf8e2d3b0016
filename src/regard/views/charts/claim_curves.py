"""Claim figures for a page and as files: line charts with error bands, and matrices.

Colours come from the page. Values outside the domain of a scale, such as 0 on a logarithmic one, leave a
gap, which the caption mentions. Matrix cells are shaded by opacity, negative numbers in a second colour,
with the numbers in the cells where they fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.core.records.claim import Curve, CurveFigure, Figure, MatrixFigure
from regard.views.charts.axes import SMALLEST, Scale, fit_scale, truncate, x_tick, y_tick
from regard.views.charts.figure_file import MARGIN, text_block, validate_figure_suffix, write_figure
from regard.views.charts.heatmap import Cells, colour_scale, opacity
from regard.views.pages.html import Markup, element, joined, svg
from regard.views.text.claims import number_text, tick_text

WIDTH, HEIGHT = 520.0, 352.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 508.0, 30.0, 296.0
COLOURS = 8
MAX_TICKS = 7
CHAR_WIDTH, LINE_HEIGHT, LEGEND_LINE = 6.4, 14.0, 20.0

Point = tuple[float, float]


def curves_chart(figure: CurveFigure, *, x_range: Sequence[float] = ()) -> Markup:
    """Line chart whose x-axis includes `x_range`; empty if no point is visible."""
    marks = place_marks(figure)
    # The names of marks are above the curves.
    below_names = TOP + LINE_HEIGHT * num_name_rows(marks)
    field = field_of(
        figure, left=LEFT, right=RIGHT, top=below_names, bottom=BOTTOM, x_range=x_range
    )
    if field is None:
        return Markup("")
    across, up = field

    return svg(
        *(
            x_tick(across.position(tick), tick_text(tick), top=TOP, bottom=BOTTOM)
            for tick in thin_ticks(across.ticks())
        ),
        *(
            y_tick(up.position(tick), tick_text(tick), left=LEFT, right=RIGHT)
            for tick in thin_ticks(up.ticks())
        ),
        element("text", figure.y_label, class_="unit", x=2, y=TOP - 14),
        element("text", figure.x_label, class_="unit", x=RIGHT, y=BOTTOM + 42, text_anchor="end"),
        *map(_mark, marks),
        *(_drawn(figure, curve, across=across, up=up) for curve in figure.curves),
        width=WIDTH,
        height=HEIGHT,
        class_="claim-chart",
        aria_label=f"{figure.title}: {figure.y_label} against {figure.x_label}.",
    )


def field_of(
    figure: CurveFigure,
    *,
    left: float,
    right: float,
    top: float,
    bottom: float,
    x_range: Sequence[float] = (),
) -> tuple[Scale, Scale] | None:
    """Scales of both axes that fit all visible points; None if there are none."""
    x_log, y_log = figure.x_scale == "log", figure.y_scale == "log"
    xs, ys = [*x_range], []
    for curve in figure.curves:
        for segment in visible_segments(figure, curve):
            xs += [x for x, _ in segment]
            ys += [y for _, y in segment]
        ys += [y for y in (*curve.low, *curve.high) if is_visible(y, logarithmic=y_log)]
    xs += [x for x, _ in figure.marks if is_visible(x, logarithmic=x_log)]
    if not ys:
        return None
    return (
        fit_scale(xs, start=left, end=right, logarithmic=x_log, padding=0.03),
        fit_scale(ys, start=bottom, end=top, logarithmic=y_log, padding=0.05),
    )


def is_visible(number: float, *, logarithmic: bool) -> bool:
    """Whether a number is in the domain of the scale."""
    return math.isfinite(number) and (number > SMALLEST or not logarithmic)


def visible_segments(figure: CurveFigure, curve: Curve) -> list[list[Point]]:
    """The visible points of a curve, split at points that are not visible."""
    x_log, y_log = figure.x_scale == "log", figure.y_scale == "log"
    segments: list[list[Point]] = [[]]
    for x, y in zip(curve.x, curve.y, strict=True):
        if is_visible(x, logarithmic=x_log) and is_visible(y, logarithmic=y_log):
            segments[-1].append((x, y))
        else:
            segments.append([])
    return [segment for segment in segments if segment]


def has_gaps(figure: CurveFigure) -> bool:
    """Whether some point is not visible."""
    total = sum(len(curve.x) for curve in figure.curves)
    segments = [s for curve in figure.curves for s in visible_segments(figure, curve)]
    return sum(map(len, segments)) < total


def thin_ticks(ticks: Sequence[float]) -> list[float]:
    """At most `MAX_TICKS` evenly chosen ticks, so that their labels do not overlap.

    >>> thin_ticks([1.0, 2.0, 3.0])
    [1.0, 2.0, 3.0]
    >>> thin_ticks([float(tick) for tick in range(10)])
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    return list(ticks[:: math.ceil(len(ticks) / MAX_TICKS)]) if ticks else []


class PlacedMark(NamedTuple):
    """A vertical line with its label, in a row above the chart and on one side of the line."""

    x: float
    name: str
    position: float
    row: int
    to_left: bool


def place_marks(figure: CurveFigure) -> list[PlacedMark]:
    """Visible marks, with labels in as many rows as needed to avoid overlap."""
    field = field_of(figure, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM)
    if field is None:
        return []
    ends: list[float] = []
    found = []
    for x, name in sorted(figure.marks):
        if not is_visible(x, logarithmic=field[0].logarithmic):
            continue
        position, width = field[0].position(x), CHAR_WIDTH * len(name)
        # To the right of the line, or to the left at the end of the chart.
        to_left = position + width + 8 > RIGHT
        start = position - width - 6 if to_left else position + 6
        row = next((row for row, end in enumerate(ends) if end < start), len(ends))
        ends[row : row + 1] = [start + width + 8]
        found.append(PlacedMark(x, name, position, row, to_left))
    return found


def num_name_rows(marks: Sequence[PlacedMark]) -> int:
    """Number of rows of mark labels."""
    return 1 + max((mark.row for mark in marks), default=-1)


def curve_class(figure: CurveFigure, curve: Curve) -> str:
    """CSS classes of a curve: curves of equal label share a colour, and colours repeat after eight."""
    labels = list(dict.fromkeys(each.label for each in figure.curves))
    shape = " points" if curve.points_only else " dashed" if curve.dashed else ""
    return f"tone-{labels.index(curve.label) % COLOURS}{shape}"


def _drawn(figure: CurveFigure, curve: Curve, *, across: Scale, up: Scale) -> Markup:
    def path(points: Sequence[Point]) -> str:
        return " ".join(f"{across.position(x):.1f},{up.position(y):.1f}" for x, y in points)

    parts: list[Markup] = [element("title", curve.label)]
    if curve.low and curve.high:
        edge = [*zip(curve.x, curve.high, strict=True)]
        edge += reversed([*zip(curve.x, curve.low, strict=True)])
        around = [
            (x, up.clamp(y))
            for x, y in edge
            if is_visible(x, logarithmic=across.logarithmic) and not math.isnan(y)
        ]
        parts.append(element("polygon", points=path(around), class_="band"))
    for segment in visible_segments(figure, curve):
        if curve.points_only or len(segment) == 1:
            parts += [
                element("circle", cx=across.position(x), cy=up.position(y), r=2.8)
                for x, y in segment
            ]
        else:
            parts.append(element("polyline", points=path(segment), class_="stroke"))
    return element("g", *parts, class_=f"line {curve_class(figure, curve)}")


def _mark(mark: PlacedMark) -> Markup:
    return joined(
        element("line", class_="mark", x1=mark.position, x2=mark.position, y1=TOP, y2=BOTTOM),
        element(
            "text",
            mark.name,
            class_="mark-name",
            x=mark.position - 6 if mark.to_left else mark.position + 6,
            y=TOP + 9 + LINE_HEIGHT * mark.row,
            text_anchor="end" if mark.to_left else None,
        ),
    )


MATRIX_WIDTH, MAX_MATRIX_HEIGHT = 520.0, 520.0
MATRIX_CHAR_WIDTH, FONT_SIZE = 6.7, 11.0
MAX_LABEL_LENGTH, MAX_LABELS = 22, 40
MAX_CELL_WIDTH, MAX_CELL_HEIGHT, MIN_CELL = 62.0, 26.0, 3.0
# Cells at least this large contain their number, and have a lower opacity for contrast.
NUMBER_WIDTH, NUMBER_HEIGHT, MAX_OPACITY_WITH_NUMBER = 44.0, 18.0, 0.5


def matrix_chart(figure: MatrixFigure) -> Markup:
    """Matrix chart; empty without cells. Labels take the width they need, cells the rest."""
    rows, columns = len(figure.values), max(map(len, figure.values), default=0)
    if not columns:
        return Markup("")
    limit = largest(figure)
    left, above = _labels_width(figure.row_labels), _labels_width(figure.column_labels)
    width = min(max((MATRIX_WIDTH - left) / columns, MIN_CELL), MAX_CELL_WIDTH)
    height = min(max(min(width, MAX_MATRIX_HEIGHT / rows), MIN_CELL), MAX_CELL_HEIGHT)
    upright = above <= width
    top = above if not upright else FONT_SIZE + 8 if figure.column_labels else 2.0
    cells = Cells(left, top, width, height)
    right = left + columns * width + 2
    drawn = [
        _cell(figure, value, row=row, column=column, cells=cells, limit=limit)
        for row, values in enumerate(figure.values)
        for column, value in enumerate(values)
    ]
    return svg(
        cells.ground(rows=rows, columns=columns),
        *cells.row_labels(_thinned(figure.row_labels)),
        *cells.column_labels(_thinned(figure.column_labels), upright=upright),
        element("g", *drawn, class_="cells"),
        width=right,
        height=top + rows * height + 2,
        class_="claim-matrix",
        style=f"max-width:{right:.0f}px",
        aria_label=f"{figure.title}: {rows} rows, {columns} columns; largest {number_text(limit)}.",
    )


def largest(figure: MatrixFigure) -> float:
    """The largest finite absolute value."""
    sizes = [abs(value) for row in figure.values for value in row if math.isfinite(value)]
    return max(sizes, default=0.0)


def _labels_width(labels: Sequence[str]) -> float:
    longest = max((min(len(label), MAX_LABEL_LENGTH) for label in labels), default=0)
    return MATRIX_CHAR_WIDTH * longest + 8.0


def _cell(
    figure: MatrixFigure, value: float, *, row: int, column: int, cells: Cells, limit: float
) -> Markup:
    named = [*figure.row_labels[row : row + 1], *figure.column_labels[column : column + 1]]
    title = f"{' → '.join(named)}: {number_text(value)}" if named else number_text(value)
    shade = opacity(value, limit=limit) if limit and math.isfinite(value) else 0.0
    if cells.width < NUMBER_WIDTH or cells.height < NUMBER_HEIGHT:
        return cells.cell(row, column, value, title, shade=shade)
    number = element(
        "text",
        number_text(value, digits=2),
        x=cells.left + cells.width * (column + 0.5),
        y=cells.top + cells.height * (row + 0.5) + FONT_SIZE / 3,
        text_anchor="middle",
    )
    return joined(
        cells.cell(row, column, value, title, shade=MAX_OPACITY_WITH_NUMBER * shade), number
    )


def _thinned(labels: Sequence[str]) -> list[str]:
    """Labels, of which at most `MAX_LABELS` are not empty."""
    step = math.ceil(len(labels) / MAX_LABELS) or 1
    return [
        truncate(label, MAX_LABEL_LENGTH) if number % step == 0 else ""
        for number, label in enumerate(labels)
    ]


def claim_figure(figure: Figure) -> Markup:
    """The figure of a claim with title and legend."""
    chart = curves_chart(figure) if isinstance(figure, CurveFigure) else matrix_chart(figure)
    if not chart:
        chart = element("p", "Nothing to draw.", class_="hint")
    below = _legend(figure) if isinstance(figure, CurveFigure) else _scale(figure)
    return element(
        "figure", element("figcaption", figure.title), chart, *below, class_="claim-figure"
    )


def _legend(figure: CurveFigure) -> list[Markup]:
    items = [
        element(
            "li",
            element("span", class_=f"swatch {curve_class(figure, curve)}", aria_hidden="true"),
            curve.label,
        )
        for curve in figure.curves
    ]
    parts = [element("ul", *items, class_="curve-list")]
    if has_gaps(figure):
        gaps = "Values outside the scale, such as 0 on a logarithmic one, are omitted."
        parts.append(element("p", gaps, class_="hint"))
    return parts


def _scale(figure: MatrixFigure) -> list[Markup]:
    limit = largest(figure)
    if not limit:
        return []
    signed = any(value < 0 for row in figure.values for value in row)
    return [colour_scale(number_text(limit), signed=signed, tag="p")]


def draw_claim(figure: Figure, *, path: Path) -> None:
    """Draw the figure of a claim to `path`, an .svg or .png file."""
    validate_figure_suffix(path)
    if isinstance(figure, CurveFigure):
        chart, legend = curves_chart(figure), legend_chart(figure)
    else:
        chart, legend = matrix_chart(figure), Markup("")
    if not chart:
        missing = "point within its scales" if isinstance(figure, CurveFigure) else "cells"
        raise RegardError(
            f"The figure '{figure.title}' has no {missing}. Run the claim with other settings."
        )
    title = text_block(figure.title, max_width=WIDTH - 2 * MARGIN, title=True)
    write_figure(title, chart, legend, path=path)


def legend_chart(figure: CurveFigure) -> Markup:
    """The labels of the curves with their colours, for a figure file."""
    curves = {curve.label: curve for curve in reversed(figure.curves)}
    rows = []
    for number, label in enumerate(dict.fromkeys(curve.label for curve in figure.curves)):
        y = LEGEND_LINE * (number + 0.5)
        sample = (
            element("circle", cx=MARGIN + 12, cy=y, r=2.8)
            if curves[label].points_only
            else element("polyline", points=f"{MARGIN},{y} {MARGIN + 24},{y}", class_="stroke")
        )
        text = element("text", label, x=MARGIN + 32, y=y + 4)
        rows.append(element("g", sample, text, class_=f"line {curve_class(figure, curves[label])}"))
    height = LEGEND_LINE * len(rows) + MARGIN
    return svg(*rows, width=WIDTH, height=height, class_="claim-chart")
