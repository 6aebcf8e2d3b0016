"""Claim figures as SVG or PNG files, the same as on the page."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.records.claim import CurveFigure, Figure, MatrixFigure
from regard.views.charts.axes import truncate
from regard.views.charts.claim_curves import (
    COLOURS,
    GAMMA,
    MAX_LABEL_LENGTH,
    field_of,
    largest,
    num_name_rows,
    place_marks,
    thin_ticks,
    visible_segments,
)
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
from regard.views.text.claims import number_text, tick_text

# Inches.
WIDTH, CURVES_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 7.2, 4.2, 0.9, 0.25, 0.6, 0.65
TITLE_LENGTH, TITLE_LINE, LEGEND_LINE = 78, 0.22, 0.22
NAME_LINE, POINTS_PER_INCH = 0.16, 72
CELL, MIN_CELL, LABEL_SIZE = 0.58, 0.06, 8.5
PALETTE = (
    "#2463b4",
    "#b8480f",
    "#1f7f57",
    "#8447a8",
    "#94700a",
    "#0d7a85",
    "#b3306b",
    "#6d5140",
)
POSITIVE, NEGATIVE = (0x1F, 0x56, 0xA8), (0xC0, 0x4F, 0x15)


def draw_claim(figure: Figure, *, path: Path) -> None:
    """Draw the figure of a claim to `path`, an .svg or .png file."""
    validate_figure_suffix(path)
    with figure_settings():
        result = _curves(figure) if isinstance(figure, CurveFigure) else _matrix(figure)
        write_figure(result, path=path)


def _curves(figure: CurveFigure) -> Any:
    found = field_of(figure, left=0.0, right=1.0, top=1.0, bottom=0.0)
    if found is None:
        raise RegardError(
            f"The figure '{figure.title}' has no point within its scales. Run the claim with "
            "other settings."
        )
    across, up = found
    title = textwrap.wrap(printable(figure.title), TITLE_LENGTH)
    marks = place_marks(figure)
    top = TOP + TITLE_LINE * (len(title) - 1) + NAME_LINE * num_name_rows(marks)
    below = BOTTOM + LEGEND_LINE * math.ceil(len(figure.curves) / 2)
    sheet = Sheet(width=WIDTH, height=top + CURVES_HEIGHT + below)
    axes = sheet.axes(LEFT, top, WIDTH - LEFT - RIGHT, CURVES_HEIGHT)
    axes.set_xscale(figure.x_scale)
    axes.set_yscale(figure.y_scale)
    axes.set_xlim(across.low, across.high)
    axes.set_ylim(up.low, up.high)
    x_ticks, y_ticks = thin_ticks(across.ticks()), thin_ticks(up.ticks())
    axes.set_xticks(x_ticks, labels=[tick_text(tick) for tick in x_ticks])
    axes.set_yticks(y_ticks, labels=[tick_text(tick) for tick in y_ticks])
    axes.minorticks_off()
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(printable(figure.x_label))
    axes.set_ylabel(printable(figure.y_label))
    for mark in marks:
        axes.axvline(mark.x, color=QUIET_INK, lw=1, ls=":")
        axes.annotate(
            printable(mark.name),
            (mark.x, up.high),
            xytext=(-4 if mark.to_left else 4, 2 + POINTS_PER_INCH * NAME_LINE * mark.row),
            textcoords="offset points",
            ha="right" if mark.to_left else "left",
            fontsize=8.5,
        )
    handles = [_draw_curve(axes, figure, number) for number in range(len(figure.curves))]
    sheet.figure.legend(
        handles,
        [printable(curve.label) for curve in figure.curves],
        loc="lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
    )
    _title(sheet, title)
    return sheet.figure


def _draw_curve(axes: Any, figure: CurveFigure, number: int) -> Any:
    curve, colour = figure.curves[number], PALETTE[number % COLOURS]
    if curve.low and curve.high:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
    line_kwargs: dict[str, Any] = {"color": colour, "lw": 1.7, "ls": "--" if curve.dashed else "-"}
    marker_kwargs: dict[str, Any] = {"color": colour, "lw": 0, "marker": "o", "ms": 3.6}
    handles = axes.plot([], [], **(marker_kwargs if curve.points_only else line_kwargs))
    for segment in visible_segments(figure, curve):
        single = curve.points_only or len(segment) == 1
        axes.plot(*zip(*segment, strict=True), **(marker_kwargs if single else line_kwargs))
    return handles[0]


def _matrix(figure: MatrixFigure) -> Any:
    rows, columns = len(figure.values), max(map(len, figure.values), default=0)
    if not columns:
        raise RegardError(
            f"The figure '{figure.title}' has no cells. Run the claim with other settings."
        )
    left = 0.25 + _labels_width(figure.row_labels)
    width = max(min(CELL, (WIDTH - left - RIGHT) / columns), MIN_CELL)
    height = max(min(width, 0.3), MIN_CELL)
    title = textwrap.wrap(printable(figure.title), TITLE_LENGTH)
    rotated = _labels_width(figure.column_labels) > width
    heads = _labels_width(figure.column_labels) if rotated else 0.25
    top = 0.5 + TITLE_LINE * (len(title) - 1) + heads
    across = max(WIDTH, left + columns * width + RIGHT)
    sheet = Sheet(width=across, height=top + rows * height + 0.3)
    axes = sheet.axes(left, top, columns * width, rows * height)
    limit = largest(figure) or 1.0
    shades = [[_shade(value / limit) for value in row] for row in figure.values]
    axes.imshow(shades, aspect="auto", interpolation="nearest")
    axes.set_xticks(
        range(len(figure.column_labels)),
        labels=[truncate(printable(label), MAX_LABEL_LENGTH) for label in figure.column_labels],
        rotation=90 if rotated else 0,
    )
    axes.set_yticks(
        range(len(figure.row_labels)),
        labels=[truncate(printable(label), MAX_LABEL_LENGTH) for label in figure.row_labels],
    )
    axes.tick_params(
        length=0, labelsize=LABEL_SIZE, top=True, labeltop=True, bottom=False, labelbottom=False
    )
    axes.spines[:].set_visible(False)
    if width >= CELL - 1e-9:
        for row, values in enumerate(figure.values):
            for column, value in enumerate(values):
                dark = abs(value) > 0.4 * limit
                axes.text(
                    column,
                    row,
                    number_text(value, digits=2),
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color="white" if dark else INK,
                )
    _title(sheet, title)
    return sheet.figure


def _shade(value: float) -> tuple[int, int, int]:
    """Colour of a cell on a scale from -1 to 1; white if not finite."""
    full = NEGATIVE if value < 0 else POSITIVE
    opacity = min(abs(value), 1.0) ** GAMMA if math.isfinite(value) else 0.0
    red, green, blue = (round(255 + opacity * (part - 255)) for part in full)
    return red, green, blue


def _labels_width(labels: tuple[str, ...]) -> float:
    names = [truncate(printable(label), MAX_LABEL_LENGTH) for label in labels]
    return max((text_width(name, font_size=LABEL_SIZE) for name in names), default=0.0) + 0.12


def _title(sheet: Sheet, lines: list[str]) -> None:
    for index, line in enumerate(lines):
        sheet.text(0.25, 0.32 + TITLE_LINE * index, line, size=11, weight="bold")
