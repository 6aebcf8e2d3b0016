"""The one x–y chart: lines with bands, single runs and gaps, points with intervals, marks, labels.

Learning curves, cost curves, Pareto charts, deletion curves, reliability diagrams and the curves of claims
are all a `Plot`. Lines are named at their end or, with `legend`, below the chart, where they also differ by
dashes; so colour is never the only cue. Values outside the domain of a scale, such as 0 on a logarithmic
one, leave a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from regard.core.formatting import axis_unit, tick_text, truncate
from regard.views.charts.axes import (
    SMALLEST,
    Box,
    Scale,
    fit_scale,
    place_labels,
    spread_labels,
    thin_ticks,
)
from regard.views.charts.svg import Attribute, element, joined, path_of, svg, text_width, titled

TONES, DASHES = 8, 4
FONT_SIZE, LINE_HEIGHT, TOP, BELOW = 13.0, 16.0, 30.0, 50.0
MAX_LABEL_LENGTH, MAX_LEGEND_LENGTH = 26, 60
Point = tuple[float, float]


class Axis(NamedTuple):
    """Label, domain (a scale whose positions are ignored), and ticks, by default those of the scale.

    Values are divided by `size`, that of a unit the label names.
    """

    label: str
    domain: Scale
    ticks: Sequence[tuple[float, str]] | None = None
    size: float = 1.0


class Line(NamedTuple):
    """A line, or only points. `thin` are further lines of the same colour; `key` links it across a page.

    `titles` has a text for each point, shown on hovering; `low` and `high` bound a band.
    """

    label: str
    points: Sequence[Point]
    tone: int | str = 0
    dash: int = 0
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    thin: Sequence[Sequence[Point]] = ()
    points_only: bool = False
    title: str = ""
    titles: Sequence[str] = ()
    key: int | None = None


class Dot(NamedTuple):
    """A point with a title and, where it fits, a label; a vertical interval from `low` to `high`."""

    x: float
    y: float
    title: str
    label: str = ""
    tone: int | str = 0
    style: str = "filled"
    radius: float = 5.5
    low: float | None = None
    high: float | None = None
    key: int | None = None


class Plot(NamedTuple):
    """A chart of `width` and, without the space for labels, `height`; marks are vertical lines.

    `legend` lists the lines below the chart instead of at their ends, where labels take `label_space` or
    more, for charts of about the same scale. Labels of the first `num_priority` dots come first.
    """

    description: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    marks: Sequence[tuple[float, str]] = ()
    legend: bool = False
    num_priority: int = 0
    width: float = 760.0
    height: float = 330.0
    label_space: float = 0.0
    note: str = ""
    class_: str = ""


def quantity_axis(
    name: str, values: Iterable[float], *, quantity: str, log: bool = False, from_zero: bool = False
) -> Axis:
    """An axis of counts, FLOPs, bytes or seconds, in the unit that fits its largest value."""
    found = list(values)
    unit, size = axis_unit(quantity, max(found))
    scaled = [value / size for value in found]
    domain = fit_scale(scaled, start=0.0, end=1.0, logarithmic=log, padding=0.08)
    if from_zero:
        domain = Scale(0.0, max(scaled) or 1.0, 0.0, 1.0)
    # "GFLOPs" says more than "FLOPs, GFLOPs".
    label = unit if unit.endswith(name) else f"{name}, {unit}" if unit else name
    return Axis(label, domain, size=size)


def fitted_axis(
    label: str, values: Iterable[float], *, log: bool = False, padding: float = 0.04
) -> Axis | None:
    """An axis that fits the values in its domain; None if there are none."""
    seen = [value for value in values if is_visible(value, log=log)]
    if not seen:
        return None
    return Axis(label, fit_scale(seen, start=0.0, end=1.0, logarithmic=log, padding=padding))


def is_visible(number: float, *, log: bool) -> bool:
    """Whether a number is in the domain of a scale."""
    return math.isfinite(number) and (number > SMALLEST or not log)


def segments(points: Sequence[Point], *, x_log: bool, y_log: bool) -> list[list[Point]]:
    """The visible points of a line, split at those that are not."""
    found: list[list[Point]] = [[]]
    for x, y in points:
        if is_visible(x, log=x_log) and is_visible(y, log=y_log):
            found[-1].append((x, y))
        else:
            found.append([])
    return [segment for segment in found if segment]


class Field(NamedTuple):
    """The area of the axes, with both scales in positions."""

    x: Scale
    y: Scale
    x_size: float
    y_size: float

    def at(self, point: Point) -> Point:
        """Position of a point."""
        return self.x.position(point[0] / self.x_size), self.y.position(point[1] / self.y_size)

    def height(self, value: float) -> float:
        """Vertical position of a value, within the axes."""
        return self.y.position(self.y.clamp(value / self.y_size))


def plot_chart(plot: Plot) -> Markup:
    """The chart as SVG; empty if no line and no dot is visible."""
    x_log, y_log = plot.x.domain.logarithmic, plot.y.domain.logarithmic
    drawn = [line for line in plot.lines if segments(line.points, x_log=x_log, y_log=y_log)]
    if not drawn and not plot.dots:
        return Markup()
    x_ticks, y_ticks = (_ticks(axis) for axis in (plot.x, plot.y))
    named = [] if plot.legend else [line for line in drawn if line.label]
    beside = max((_label_width(line) for line in named), default=0.0) + 34 if named else 0.0
    # The label of the last tick is centred below the end of the axis.
    beside = max([beside, 10.0, *(_width(text) / 2 + 4 for _, text in x_ticks[-1:])])
    beside = max(beside, plot.label_space)
    left = max(_width(text) for _, text in y_ticks) + 18 if y_ticks else 30.0
    right, bottom = plot.width - beside, TOP + plot.height
    bottom = max(bottom, TOP + LINE_HEIGHT * len(named))
    across = plot.x.domain._replace(start=left, end=right)
    marks = place_marks(plot.marks, across)
    above = TOP + LINE_HEIGHT * (1 + max((mark.row for mark in marks), default=-1))
    up = plot.y.domain._replace(start=bottom, end=above)
    field = Field(across, up, plot.x.size, plot.y.size)
    ends = sorted(
        ((field.at(_visible_end(line, x_log, y_log))[1], n) for n, line in enumerate(named))
    )
    heights = spread_labels([y for y, _ in ends], spacing=LINE_HEIGHT, top=TOP)
    at_end = {id(named[n]): y for (_, n), y in zip(ends, heights, strict=True)}
    lowest = max([bottom, *heights])
    legend, legend_height = _legend(drawn, width=plot.width, top=lowest + BELOW)
    above_axes: dict[str, Attribute] = {"class_": "unit", "y": TOP - 13}
    return svg(
        *(
            _tick(across.position(value), text, across=True, ends=(TOP, bottom))
            for value, text in x_ticks
        ),
        *(
            _tick(up.position(value), text, across=False, ends=(left, right))
            for value, text in y_ticks
        ),
        element("text", plot.y.label, x=4, **above_axes),
        element("text", plot.note, x=right, text_anchor="end", **above_axes) if plot.note else "",
        element("text", plot.x.label, class_="unit", x=right, y=bottom + 38, text_anchor="end"),
        *(_mark(mark, bottom=bottom) for mark in marks),
        *(_line(line, field, label=at_end.get(id(line)), right=right) for line in drawn),
        *_dots(plot, field, lines=drawn),
        legend if plot.legend else "",
        width=plot.width,
        height=lowest + BELOW + (legend_height if plot.legend else 0.0),
        class_=f"chart plot {plot.class_}".strip(),
        aria_label=plot.description,
    )


def _ticks(axis: Axis) -> list[tuple[float, str]]:
    if axis.ticks is not None:
        return list(axis.ticks)
    return [(tick, tick_text(tick)) for tick in thin_ticks(axis.domain.ticks())]


def _width(text: str) -> float:
    return text_width(text, font_size=0.88 * FONT_SIZE)


def _label_width(line: Line) -> float:
    return _width(truncate(line.label, MAX_LABEL_LENGTH))


def _visible_end(line: Line, x_log: bool, y_log: bool) -> Point:
    return segments(line.points, x_log=x_log, y_log=y_log)[-1][-1]


def _tick(at: float, text: str, *, across: bool, ends: Point) -> Markup:
    """A grid line with its label below or to the left."""
    one, other = ends
    if across:
        grid = element("line", class_="grid", x1=at, x2=at, y1=one, y2=other)
        return joined(grid, element("text", text, x=at, y=other + 18, text_anchor="middle"))
    grid = element("line", class_="grid", x1=one, x2=other, y1=at, y2=at)
    return joined(grid, element("text", text, x=one - 8, y=at + 4, text_anchor="end"))


def _line(line: Line, field: Field, *, label: float | None, right: float) -> Markup:
    x_log, y_log = field.x.logarithmic, field.y.logarithmic
    parts: list[Markup] = []
    if line.low and line.high:
        edges = [*zip(line.points, line.high, strict=True)]
        edges += reversed([*zip(line.points, line.low, strict=True)])
        around = [
            (field.x.position(x / field.x_size), field.height(end))
            for (x, _), end in edges
            if is_visible(x, log=x_log) and not math.isnan(end)
        ]
        parts.append(element("polygon", points=path_of(around), class_="band"))
    for thin in line.thin:
        parts += [
            element("polyline", points=path_of([*map(field.at, segment)]), class_="thin")
            for segment in segments(thin, x_log=x_log, y_log=y_log)
        ]
    whole = [[*map(field.at, one)] for one in segments(line.points, x_log=x_log, y_log=y_log)]
    for segment in whole:
        if line.points_only or len(segment) == 1:
            parts += [element("circle", cx=x, cy=y, r=2.8) for x, y in segment]
        else:
            path = path_of(segment)
            parts.append(element("polyline", points=path, class_="hit-area"))
            parts.append(element("polyline", points=path, class_="stroke"))
    parts += [
        titled(text, element("circle", cx=x, cy=y, r=3.5))
        for text, point in zip(line.titles, line.points, strict=False)
        for x, y in [field.at(point)]
    ]
    if label is not None:
        (x, y), place = whole[-1][-1], right + 26
        leader = f"M{x + 4:.1f} {y:.1f} C{x + 18:.1f} {y:.1f} "
        leader += f"{place - 18:.1f} {label:.1f} {place - 4:.1f} {label:.1f}"
        name = truncate(line.label, MAX_LABEL_LENGTH)
        parts += [element("path", d=leader, class_="leader"), element("circle", cx=x, cy=y, r=3)]
        parts.append(element("text", name, x=place, y=label + 4))
    return titled(
        line.title or line.label,
        *parts,
        class_=f"line tone-{line.tone} dash-{line.dash}",
        data_variant=line.key,
    )


class PlacedMark(NamedTuple):
    """A vertical line with its label, in a row above the chart and on one side of the line."""

    name: str
    position: float
    row: int
    to_left: bool


def place_marks(marks: Sequence[tuple[float, str]], across: Scale) -> list[PlacedMark]:
    """Visible marks, with labels in as many rows as needed to avoid overlap."""
    ends: list[float] = []
    found = []
    for x, name in sorted(marks):
        if not is_visible(x, log=across.logarithmic):
            continue
        position, width = across.position(x), _width(name)
        # To the right of the line, or to the left at the end of the chart.
        to_left = position + width + 8 > across.end
        start = position - width - 6 if to_left else position + 6
        row = next((row for row, end in enumerate(ends) if end < start), len(ends))
        ends[row : row + 1] = [start + width + 8]
        found.append(PlacedMark(name, position, row, to_left))
    return found


def _mark(mark: PlacedMark, *, bottom: float) -> Markup:
    x, y = mark.position, TOP + 9 + LINE_HEIGHT * mark.row
    place = (x - 6, "end") if mark.to_left else (x + 6, None)
    name = element("text", mark.name, class_="mark-name", x=place[0], y=y, text_anchor=place[1])
    return joined(element("line", class_="mark", x1=x, x2=x, y1=TOP, y2=bottom), name)


def _dots(plot: Plot, field: Field, *, lines: Sequence[Line]) -> list[Markup]:
    """The dots, the first ones on top, with labels that overlap nothing."""
    places = [field.at((dot.x, dot.y)) for dot in plot.dots]
    texts = [truncate(dot.label, MAX_LABEL_LENGTH) for dot in plot.dots]
    corners = [[field.at(point) for point in line.points] for line in lines if not line.label]
    obstacles = [
        Box(min(x, to_x) - 1, min(y, to_y) - 1, max(x, to_x) + 1, max(y, to_y) + 1)
        for path in corners
        for (x, y), (to_x, to_y) in pairwise(path)
    ]
    within = Box(field.x.start, field.y.end - 8, plot.width, field.y.start)
    labels = place_labels(
        places, texts, within=within, obstacles=obstacles, num_priority=plot.num_priority
    )
    drawn = []
    for dot, text, (x, y), label in zip(plot.dots, texts, places, labels, strict=True):
        parts = []
        if dot.low is not None and dot.high is not None:
            low, high = field.height(dot.low), field.height(dot.high)
            parts.append(element("line", class_="whisker", x1=x, x2=x, y1=low, y2=high))
        parts.append(element("circle", cx=x, cy=y, r=dot.radius, class_=dot.style))
        if label is not None and text:
            parts.append(element("text", text, x=label.x, y=label.y, text_anchor=label.anchor))
        class_ = f"point tone-{dot.tone}"
        drawn.append(titled(dot.title, *parts, class_=class_, data_variant=dot.key))
    return drawn[::-1]


def _legend(lines: Sequence[Line], *, width: float, top: float) -> tuple[Markup, float]:
    """A sample and the label of every line, in rows; lines of equal label share an entry."""
    x, y, parts = 8.0, top + 4.0, []
    first: dict[str, Line] = {}
    for line in lines:
        if line.label:
            first.setdefault(line.label, line)
    for line in first.values():
        label = truncate(line.label, MAX_LEGEND_LENGTH)
        needed = 38 + _width(label) + 18
        if x > 8 and x + needed > width:
            x, y = 8.0, y + LINE_HEIGHT + 3
        sample = (
            element("circle", cx=x + 12, cy=y, r=2.8)
            if line.points_only
            else element("polyline", points=path_of([(x, y), (x + 24, y)]), class_="stroke")
        )
        text = element("text", label, x=x + 32, y=y + 4)
        parts.append(element("g", sample, text, class_=f"line tone-{line.tone} dash-{line.dash}"))
        x += needed
    return joined(*parts), (y - top + LINE_HEIGHT) if parts else 0.0
