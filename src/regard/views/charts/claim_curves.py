"""The lines of a claim's picture, for a page: bands, broken lines, points, upright marks with their names.

It takes its colours from the page. Numbers that a scale cannot show, such as 0 on a logarithmic one, leave
a gap, and the caption of the figure says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from regard.core.records.claim import Curve, CurvePicture, MatrixPicture, Picture
from regard.views.charts.axes import SMALLEST, Scale, scale_around, tick_across, tick_down
from regard.views.pages.html import Markup, element, joined
from regard.views.text.claims import number_text, tick_text

WIDTH, HEIGHT = 520.0, 352.0
LEFT, RIGHT, TOP, BOTTOM = 66.0, 508.0, 30.0, 296.0
COLOURS = 8
MOST_TICKS = 7
LETTER, LINE = 6.4, 14.0

Point = tuple[float, float]


def curves_chart(picture: CurvePicture) -> Markup:
    """The chart; nothing where there is no point that can be shown."""
    marks = mark_places(picture)
    # The names of marks stand above the curves, which would run through them.
    below_names = TOP + LINE * name_rows(marks)
    field = field_of(picture, left=LEFT, right=RIGHT, top=below_names, bottom=BOTTOM)
    if field is None:
        return Markup("")
    across, up = field
    return element(
        "svg",
        *(
            tick_across(across.place(tick), tick_text(tick), top=TOP, bottom=BOTTOM)
            for tick in thinned(across.ticks())
        ),
        *(
            tick_down(up.place(tick), tick_text(tick), left=LEFT, right=RIGHT)
            for tick in thinned(up.ticks())
        ),
        element("text", picture.y_label, class_="unit", x=2, y=TOP - 14),
        element("text", picture.x_label, class_="unit", x=RIGHT, y=BOTTOM + 42, text_anchor="end"),
        *map(_mark, marks),
        *(
            _drawn(picture, curve, number=number, across=across, up=up)
            for number, curve in enumerate(picture.curves)
        ),
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        class_="claim-chart",
        role="img",
        aria_label=f"{picture.title}: {picture.y_label} against {picture.x_label}.",
    )


def field_of(
    picture: CurvePicture, *, left: float, right: float, top: float, bottom: float
) -> tuple[Scale, Scale] | None:
    """The two scales that hold everything that can be shown; None where that is nothing."""
    x_log, y_log = picture.x_scale == "log", picture.y_scale == "log"
    places, heights = [], []
    for curve in picture.curves:
        for run in shown_runs(picture, curve):
            places += [x for x, _ in run]
            heights += [y for _, y in run]
        heights += [y for y in (*curve.low, *curve.high) if can_show(y, logarithmic=y_log)]
    places += [x for x, _ in picture.marks if can_show(x, logarithmic=x_log)]
    if not heights:
        return None
    return (
        scale_around(places, start=left, end=right, logarithmic=x_log, air=0.03),
        scale_around(heights, start=bottom, end=top, logarithmic=y_log, air=0.05),
    )


def can_show(number: float, *, logarithmic: bool) -> bool:
    """Whether a scale has a place for it."""
    return math.isfinite(number) and (number > SMALLEST or not logarithmic)


def shown_runs(picture: CurvePicture, curve: Curve) -> list[list[Point]]:
    """The points of a curve that can be shown, cut where one between them cannot."""
    x_log, y_log = picture.x_scale == "log", picture.y_scale == "log"
    runs: list[list[Point]] = [[]]
    for x, y in zip(curve.x, curve.y, strict=True):
        if can_show(x, logarithmic=x_log) and can_show(y, logarithmic=y_log):
            runs[-1].append((x, y))
        else:
            runs.append([])
    return [run for run in runs if run]


def has_gaps(picture: CurvePicture) -> bool:
    """Whether some point cannot be shown."""
    there = sum(len(curve.x) for curve in picture.curves)
    shown = sum(len(run) for curve in picture.curves for run in shown_runs(picture, curve))
    return shown < there


def thinned(ticks: Sequence[float]) -> list[float]:
    """Every second, or third, or further tick, so that their numbers do not touch.

    >>> thinned([1.0, 2.0, 3.0])
    [1.0, 2.0, 3.0]
    >>> thinned([float(tick) for tick in range(10)])
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    return list(ticks[:: math.ceil(len(ticks) / MOST_TICKS)]) if ticks else []


class MarkPlace(NamedTuple):
    """An upright line, and where its name goes: on which row, on which side."""

    x: float
    name: str
    place: float
    row: int
    to_left: bool


def mark_places(picture: CurvePicture) -> list[MarkPlace]:
    """The marks that can be shown; their names stand in rows, so that none covers another."""
    field = field_of(picture, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM)
    if field is None:
        return []
    ends: list[float] = []
    found = []
    for x, name in sorted(picture.marks):
        if not can_show(x, logarithmic=field[0].logarithmic):
            continue
        place, width = field[0].place(x), LETTER * len(name)
        # A name goes to the right of its line, or to the left where the field ends.
        to_left = place + width + 8 > RIGHT
        start = place - width - 6 if to_left else place + 6
        row = next((row for row, end in enumerate(ends) if end < start), len(ends))
        ends[row : row + 1] = [start + width + 8]
        found.append(MarkPlace(x, name, place, row, to_left))
    return found


def name_rows(marks: Sequence[MarkPlace]) -> int:
    """How many rows the names of these marks take."""
    return 1 + max((mark.row for mark in marks), default=-1)


def tone(number: int) -> str:
    """The class that colours a curve; colours come again after eight."""
    return f"tone-{number % COLOURS}"


def _drawn(picture: CurvePicture, curve: Curve, *, number: int, across: Scale, up: Scale) -> Markup:
    def path(points: Sequence[Point]) -> str:
        return " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in points)

    parts: list[Markup] = [element("title", curve.label)]
    if curve.low and curve.high:
        edge = [*zip(curve.x, curve.high, strict=True)]
        edge += reversed([*zip(curve.x, curve.low, strict=True)])
        around = [
            (x, up.held(y))
            for x, y in edge
            if can_show(x, logarithmic=across.logarithmic) and not math.isnan(y)
        ]
        parts.append(element("polygon", points=path(around), class_="band"))
    for run in shown_runs(picture, curve):
        if curve.points_only or len(run) == 1:
            parts += [element("circle", cx=across.place(x), cy=up.place(y), r=2.8) for x, y in run]
        else:
            parts.append(element("polyline", points=path(run), class_="stroke"))
    dashed = " dashed" if curve.dashed else ""
    return element("g", *parts, class_=f"line {tone(number)}{dashed}")


def _mark(mark: MarkPlace) -> Markup:
    return joined(
        element("line", class_="mark", x1=mark.place, x2=mark.place, y1=TOP, y2=BOTTOM),
        element(
            "text",
            mark.name,
            class_="mark-name",
            x=mark.place - 6 if mark.to_left else mark.place + 6,
            y=TOP + 9 + LINE * mark.row,
            text_anchor="end" if mark.to_left else None,
        ),
    )


# The matrix of a claim's picture, for a page: cells shaded by size, with their numbers where these
# fit.
#
# Shade is opacity over the page's own ground, so one drawing serves a light and a dark page;
# numbers below 0 have a colour of their own. The largest number has the full shade.


WIDTH_CLAIM_MATRIX = 520.0
LETTER_CLAIM_MATRIX, FONT_SIZE = 6.7, 11.0
LONGEST_LABEL = 22
WIDEST_CELL, HIGHEST_CELL, LEAST_CELL = 62.0, 26.0, 3.0
# Cells at least this large hold their number.
NUMBER_WIDTH, NUMBER_HEIGHT = 44.0, 18.0
# As in the maps of weights: small numbers should be seen too.
GAMMA = 0.5
# Under a number the shade is weaker, so that it can be read.
FULL, FULL_UNDER_NUMBER = 1.0, 0.5
MOST_LABELS = 40
TALLEST = 520.0


class Layout(NamedTuple):
    """Where the cells begin and how large they are."""

    left: float
    top: float
    width: float
    height: float
    upright: bool

    @property
    def has_numbers(self) -> bool:
        return self.width >= NUMBER_WIDTH and self.height >= NUMBER_HEIGHT


def matrix_chart(picture: MatrixPicture) -> Markup:
    """The drawing; nothing where there is no cell."""
    rows, columns = len(picture.values), max(map(len, picture.values), default=0)
    if not columns:
        return Markup("")
    layout = layout_of(picture)
    limit = largest(picture)
    right, bottom = layout.left + columns * layout.width, layout.top + rows * layout.height
    cells = [
        _cell(picture, value, row=row, column=column, layout=layout, limit=limit)
        for row, values in enumerate(picture.values)
        for column, value in enumerate(values)
    ]
    return element(
        "svg",
        element(
            "rect",
            class_="ground",
            x=layout.left,
            y=layout.top,
            width=right - layout.left,
            height=bottom - layout.top,
        ),
        *_row_labels(picture, layout),
        *_column_labels(picture, layout),
        element("g", *cells, class_="cells"),
        viewBox=f"0 0 {right + 2:.0f} {bottom + 2:.0f}",
        class_="claim-matrix",
        style=f"max-width:{right + 2:.0f}px",
        role="img",
        aria_label=f"{picture.title}: {rows} rows, {columns} columns; largest {number_text(limit)}.",
    )


def largest(picture: MatrixPicture) -> float:
    """The size of the number that has the full shade."""
    sizes = [abs(value) for row in picture.values for value in row if math.isfinite(value)]
    return max(sizes, default=0.0)


def layout_of(picture: MatrixPicture) -> Layout:
    """Room for the labels first, then for cells as large as there is place for."""
    rows, columns = len(picture.values), max(map(len, picture.values))
    left = _room(picture.row_labels)
    width = min(max((WIDTH_CLAIM_MATRIX - left) / columns, LEAST_CELL), WIDEST_CELL)
    height = min(max(min(width, TALLEST / rows), LEAST_CELL), HIGHEST_CELL)
    upright = _room(picture.column_labels) > width
    top = _room(picture.column_labels) if upright else FONT_SIZE + 8 if picture.column_labels else 2
    return Layout(left, top, width, height, upright)


def shortened(label: str) -> str:
    """A label as it stands beside a row or column."""
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _room(labels: Sequence[str]) -> float:
    return LETTER_CLAIM_MATRIX * max((len(shortened(label)) for label in labels), default=0) + 8.0


def _cell(
    picture: MatrixPicture,
    value: float,
    *,
    row: int,
    column: int,
    layout: Layout,
    limit: float,
) -> Markup:
    x, y = layout.left + column * layout.width, layout.top + row * layout.height
    named = [
        labels[place]
        for labels, place in ((picture.row_labels, row), (picture.column_labels, column))
        if place < len(labels)
    ]
    title = f"{' → '.join(named)}: {number_text(value)}" if named else number_text(value)
    full = FULL_UNDER_NUMBER if layout.has_numbers else FULL
    share = abs(value) / limit if limit and math.isfinite(value) else 0.0
    parts = [
        element("title", title),
        element(
            "rect",
            class_="negative" if value < 0 else None,
            x=x,
            y=y,
            width=layout.width - min(1.0, layout.width / 8),
            height=layout.height - min(1.0, layout.height / 8),
            fill_opacity=full * share**GAMMA,
        ),
    ]
    if layout.has_numbers:
        parts.append(
            element(
                "text",
                number_text(value, digits=2),
                x=x + layout.width / 2,
                y=y + layout.height / 2 + FONT_SIZE / 3,
                text_anchor="middle",
            )
        )
    return element("g", *parts)


def _row_labels(picture: MatrixPicture, layout: Layout) -> list[Markup]:
    return [
        element(
            "text",
            shortened(label),
            x=layout.left - 6,
            y=layout.top + layout.height * (place + 0.5) + FONT_SIZE / 3,
            text_anchor="end",
        )
        for place, label in _some(picture.row_labels)
    ]


def _column_labels(picture: MatrixPicture, layout: Layout) -> list[Markup]:
    found = []
    for place, label in _some(picture.column_labels):
        middle = layout.left + layout.width * (place + 0.5)
        if layout.upright:
            turned = f"translate({middle + FONT_SIZE / 3:.1f} {layout.top - 5:.1f}) rotate(-90)"
            found.append(element("text", shortened(label), transform=turned))
        else:
            found.append(
                element("text", shortened(label), x=middle, y=layout.top - 6, text_anchor="middle")
            )
    return found


def _some(labels: Sequence[str]) -> list[tuple[int, str]]:
    """All labels with their places, or as many as can be read."""
    step = math.ceil(len(labels) / MOST_LABELS) or 1
    return list(enumerate(labels))[::step]


# The picture of a claim as a figure of a page: its title, the drawing, and what its colours stand
# for.


def claim_figure(picture: Picture) -> Markup:
    """The figure; where nothing can be drawn it says so."""
    chart = curves_chart(picture) if isinstance(picture, CurvePicture) else matrix_chart(picture)
    if not chart:
        chart = element("p", "There is nothing that can be drawn.", class_="hint")
    below = _legend(picture) if isinstance(picture, CurvePicture) else _scale(picture)
    return element(
        "figure", element("figcaption", picture.title), chart, *below, class_="claim-figure"
    )


def _legend(picture: CurvePicture) -> list[Markup]:
    items = [
        element(
            "li",
            element("span", class_=f"swatch {_kind(number, picture)}", aria_hidden="true"),
            curve.label,
        )
        for number, curve in enumerate(picture.curves)
    ]
    parts = [element("ul", *items, class_="curve-list")]
    if has_gaps(picture):
        gaps = "Values that the scale cannot show, such as 0 on a logarithmic one, are left out."
        parts.append(element("p", gaps, class_="hint"))
    return parts


def _kind(number: int, picture: CurvePicture) -> str:
    curve = picture.curves[number]
    shape = " points" if curve.points_only else " dashed" if curve.dashed else ""
    return f"{tone(number)}{shape}"


def _scale(picture: MatrixPicture) -> list[Markup]:
    limit = largest(picture)
    if not limit:
        return []
    signed = any(value < 0 for row in picture.values for value in row)
    full = number_text(limit)
    return [
        element(
            "p",
            f"−{full}" if signed else "0",
            element("span", class_="ramp signed" if signed else "ramp", aria_hidden="true"),
            full,
            class_="legend",
        )
    ]
