"""The lines of a claim's picture, for a page: bands, broken lines, points, upright marks with their names.

It takes its colours from the page. Numbers that a scale cannot show, such as 0 on a logarithmic one, leave
a gap, and the caption of the figure says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from regard.core.claim_record import Curve, CurvePicture
from regard.views.chart_scale import SMALLEST, Scale, scale_around
from regard.views.chart_ticks import tick_across, tick_down
from regard.views.claim_words import tick_text
from regard.views.markup import Markup, element, joined

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
