"""The picture of a claim as a file, SVG or PNG: the same as on the page, on white."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.records.claim import CurvePicture, MatrixPicture, Picture
from regard.views.charts.claim_curves import (
    COLOURS,
    GAMMA,
    field_of,
    largest,
    mark_places,
    name_rows,
    shortened as short_label,
    shown_runs,
    thinned,
)
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
from regard.views.text.claims import number_text, tick_text

# Inches.
WIDTH, CURVES_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 7.2, 4.2, 0.9, 0.25, 0.6, 0.65
TITLE_LETTERS, TITLE_LINE, LEGEND_LINE = 78, 0.22, 0.22
NAME_LINE, POINTS = 0.16, 72  # the name of a mark, in inches; so many points are one
CELL, LEAST_CELL, LABEL_SIZE = 0.58, 0.06, 8.5
GRID = "#eaeef2"
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


def draw_claim(picture: Picture, *, path: Path) -> None:
    """Write the picture to `path`, an .svg or a .png."""
    require_figure_suffix(path)
    with figure_settings():
        drawn = _curves(picture) if isinstance(picture, CurvePicture) else _matrix(picture)
        write_figure(drawn, path=path)


def _curves(picture: CurvePicture) -> Any:
    found = field_of(picture, left=0.0, right=1.0, top=1.0, bottom=0.0)
    if found is None:
        raise RegardError(
            f"The picture '{picture.title}' has no point that its scales can show. Run the claim "
            "with other settings."
        )
    across, up = found
    title = textwrap.wrap(shown(picture.title), TITLE_LETTERS)
    marks = mark_places(picture)
    top = TOP + TITLE_LINE * (len(title) - 1) + NAME_LINE * name_rows(marks)
    below = BOTTOM + LEGEND_LINE * math.ceil(len(picture.curves) / 2)
    sheet = Sheet(width=WIDTH, height=top + CURVES_HEIGHT + below)
    axes = sheet.axes(LEFT, top, WIDTH - LEFT - RIGHT, CURVES_HEIGHT)
    axes.set_xscale(picture.x_scale)
    axes.set_yscale(picture.y_scale)
    axes.set_xlim(across.low, across.high)
    axes.set_ylim(up.low, up.high)
    x_ticks, y_ticks = thinned(across.ticks()), thinned(up.ticks())
    axes.set_xticks(x_ticks, labels=[tick_text(tick) for tick in x_ticks])
    axes.set_yticks(y_ticks, labels=[tick_text(tick) for tick in y_ticks])
    axes.minorticks_off()
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(shown(picture.x_label))
    axes.set_ylabel(shown(picture.y_label))
    for mark in marks:
        axes.axvline(mark.x, color=QUIET_INK, lw=1, ls=":")
        axes.annotate(
            shown(mark.name),
            (mark.x, up.high),
            xytext=(-4 if mark.to_left else 4, 2 + POINTS * NAME_LINE * mark.row),
            textcoords="offset points",
            ha="right" if mark.to_left else "left",
            fontsize=8.5,
        )
    handles = [_draw_curve(axes, picture, number) for number in range(len(picture.curves))]
    sheet.figure.legend(
        handles,
        [shown(curve.label) for curve in picture.curves],
        loc="lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
    )
    _title(sheet, title)
    return sheet.figure


def _draw_curve(axes: Any, picture: CurvePicture, number: int) -> Any:
    curve, colour = picture.curves[number], PALETTE[number % COLOURS]
    if curve.low and curve.high:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
    looks: dict[str, Any] = {"color": colour, "lw": 1.7, "ls": "--" if curve.dashed else "-"}
    dots: dict[str, Any] = {"color": colour, "lw": 0, "marker": "o", "ms": 3.6}
    handles = axes.plot([], [], **(dots if curve.points_only else looks))
    for run in shown_runs(picture, curve):
        alone = curve.points_only or len(run) == 1
        axes.plot(*zip(*run, strict=True), **(dots if alone else looks))
    return handles[0]


def _matrix(picture: MatrixPicture) -> Any:
    rows, columns = len(picture.values), max(map(len, picture.values), default=0)
    if not columns:
        raise RegardError(
            f"The picture '{picture.title}' has no cells. Run the claim with other settings."
        )
    left = 0.25 + _room(picture.row_labels)
    width = max(min(CELL, (WIDTH - left - RIGHT) / columns), LEAST_CELL)
    height = max(min(width, 0.3), LEAST_CELL)
    title = textwrap.wrap(shown(picture.title), TITLE_LETTERS)
    upright = _room(picture.column_labels) > width
    heads = _room(picture.column_labels) if upright else 0.25
    top = 0.5 + TITLE_LINE * (len(title) - 1) + heads
    across = max(WIDTH, left + columns * width + RIGHT)
    sheet = Sheet(width=across, height=top + rows * height + 0.3)
    axes = sheet.axes(left, top, columns * width, rows * height)
    limit = largest(picture) or 1.0
    shades = [[_shade(value / limit) for value in row] for row in picture.values]
    axes.imshow(shades, aspect="auto", interpolation="nearest")
    axes.set_xticks(
        range(len(picture.column_labels)),
        labels=[short_label(shown(label)) for label in picture.column_labels],
        rotation=90 if upright else 0,
    )
    axes.set_yticks(
        range(len(picture.row_labels)),
        labels=[short_label(shown(label)) for label in picture.row_labels],
    )
    axes.tick_params(
        length=0, labelsize=LABEL_SIZE, top=True, labeltop=True, bottom=False, labelbottom=False
    )
    axes.spines[:].set_visible(False)
    if width >= CELL - 1e-9:
        for row, values in enumerate(picture.values):
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


def _shade(share: float) -> tuple[int, int, int]:
    """The colour of a cell, mixed into white; white where there is no number."""
    full = NEGATIVE if share < 0 else POSITIVE
    strength = min(abs(share), 1.0) ** GAMMA if math.isfinite(share) else 0.0
    red, green, blue = (round(255 + strength * (part - 255)) for part in full)
    return red, green, blue


def _room(labels: tuple[str, ...]) -> float:
    names = [short_label(shown(label)) for label in labels]
    return max((text_width(name, font_size=LABEL_SIZE) for name in names), default=0.0) + 0.12


def _title(sheet: Sheet, lines: list[str]) -> None:
    for place, line in enumerate(lines):
        sheet.text(0.25, 0.32 + TITLE_LINE * place, line, size=11, weight="bold")
