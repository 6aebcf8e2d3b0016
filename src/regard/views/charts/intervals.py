"""Interval plots (dot-and-whisker): observations as dots, the mean as a bar, the interval as a whisker.

All rows of a plot share a scale: a row is a cell of a table, or a line of a figure. A whisker that leaves
the scale ends in an arrow, since with two seeds an interval may far exceed the range of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from regard.core.formatting import tick_text, truncate
from regard.views.charts.axes import Scale, fit_scale
from regard.views.charts.svg import element, joined, path_of, svg, titled

WIDTH, HEIGHT, SIDE, AXIS_HEIGHT = 300.0, 34.0, 12.0, 26.0
# How far whiskers may extend the scale beyond the dots, relative to the range of the dots.
MAX_EXTENSION = 0.5


class Interval(NamedTuple):
    """One row: the mean and its interval, dots with their titles, and what the row is of.

    `band` is half the width of a grey band around 0. `key` links the row to charts of the page.
    """

    label: str
    mean: float | None
    low: float | None
    high: float | None
    dots: Sequence[tuple[str, float]] = ()
    tone: int | str = "ink"
    key: int | None = None
    band: float | None = None
    is_solid: bool = False


def interval_scale(
    dots: Iterable[float],
    intervals: Iterable[tuple[float | None, float | None]],
    *,
    start: float = SIDE,
    end: float = WIDTH - SIDE,
) -> Scale | None:
    """A scale for all dots and, up to `MAX_EXTENSION`, the whiskers; None without dots."""
    found = list(dots)
    if not found:
        return None
    low, high = min(found), max(found)
    reach = MAX_EXTENSION * (high - low or abs(high) / 10 or 1.0)
    ends = [end for pair in intervals for end in pair if end is not None]
    clipped = [min(max(end, low - reach), high + reach) for end in ends]
    if low >= 0:
        clipped = [max(end, 0.0) for end in clipped]
    return fit_scale([*found, *clipped], start=start, end=end)


def interval_row(interval: Interval, scale: Scale | None, *, at: float | None = None) -> Markup:
    """The row as the chart of a table cell, with a reference line at the value `at`."""
    if scale is None:
        return Markup()
    return svg(
        _band(interval, scale),
        grid_lines(scale, top=0.0, bottom=HEIGHT, at=at),
        interval_plot(interval, scale, middle=HEIGHT / 2),
        width=WIDTH,
        height=HEIGHT,
        class_="chart interval-plot",
        aria_label=interval.label,
    )


def interval_axis(scale: Scale | None) -> Markup:
    """The tick labels as the chart of a column heading."""
    if scale is None:
        return Markup()
    ticks = tick_labels(scale, below=AXIS_HEIGHT - 6)
    class_ = "chart interval-plot"
    return svg(ticks, width=WIDTH, height=AXIS_HEIGHT, class_=class_, aria_hidden="true")


def interval_plot(interval: Interval, scale: Scale, *, middle: float) -> Markup:
    """One row, centred at the height `middle`."""
    parts, low, high = [], interval.low, interval.high
    if low is not None and high is not None:
        left, right = scale.position(scale.clamp(low)), scale.position(scale.clamp(high))
        parts.append(element("line", class_="whisker", x1=left, x2=right, y1=middle, y2=middle))
        parts.append(_cap(left, middle, direction=-1.0, clipped=low < scale.low))
        parts.append(_cap(right, middle, direction=1.0, clipped=high > scale.high))
    parts += [
        titled(title, element("circle", cx=scale.position(value), cy=middle, r=4))
        for title, value in interval.dots
    ]
    if interval.mean is not None:
        x = scale.position(scale.clamp(interval.mean))
        parts.append(element("line", class_="mean", x1=x, x2=x, y1=middle - 9, y2=middle + 9))
    class_ = f"tone-{interval.tone}{' solid' if interval.is_solid else ''}"
    return element("g", *parts, class_=class_, data_variant=interval.key)


def _band(interval: Interval, scale: Scale) -> Markup:
    if interval.band is None:
        return Markup()
    left, right = (scale.position(scale.clamp(side * interval.band)) for side in (-1, 1))
    size = {"width": right - left, "height": HEIGHT - 6}
    return element("rect", class_="undetectable", x=left, y=3, **size)


def grid_lines(scale: Scale, *, top: float, bottom: float, at: float | None = None) -> Markup:
    """A grid line at every tick, and a reference line at the value `at`."""
    lines = [
        element("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom)
        for x in map(scale.position, scale.ticks())
    ]
    if at is not None:
        x = scale.position(scale.clamp(at))
        lines.append(element("line", class_="reference-line", x1=x, x2=x, y1=top, y2=bottom))
    return joined(*lines)


def tick_labels(scale: Scale, *, below: float) -> Markup:
    """The tick labels, with their baseline at the height `below`."""
    return joined(
        *(
            element("text", tick_text(tick), x=scale.position(tick), y=below, text_anchor="middle")
            for tick in scale.ticks()
        )
    )


def _cap(x: float, middle: float, *, direction: float, clipped: bool) -> Markup:
    """The end of a whisker: a bar, or an arrow if it is clipped."""
    if clipped:
        back = x - 6 * direction
        points = path_of([(back, middle - 4), (x, middle), (back, middle + 4)])
        return element("polyline", points=points, class_="whisker")
    return element("line", class_="whisker", x1=x, x2=x, y1=middle - 4, y2=middle + 4)


FIGURE_WIDTH, ROW, TOP, LEFT, RIGHT, MAX_NAME_LENGTH = 720.0, 30.0, 54.0, 190.0, 540.0, 26


class FigureRow(NamedTuple):
    """A row of a figure: a name at its left, a text at its right."""

    name: str
    interval: Interval
    text: str


def interval_chart(
    rows: Sequence[FigureRow], scale: Scale, *, title: str, label: str, at: float | None
) -> Markup:
    """All rows as one chart, for a figure file; `scale` is that of the rows of the page."""
    scale = scale._replace(start=LEFT + 12, end=RIGHT - 12)
    bottom, drawn = TOP + ROW * len(rows), []
    for index, row in enumerate(rows):
        middle = TOP + ROW * (index + 0.5)
        name = truncate(row.name, MAX_NAME_LENGTH)
        drawn += [
            element("text", name, x=LEFT - 8, y=middle + 4, text_anchor="end"),
            element("text", row.text, x=RIGHT + 8, y=middle + 4),
            interval_plot(row.interval, scale, middle=middle),
        ]
    return svg(
        element("text", title, x=12, y=22),
        tick_labels(scale, below=TOP - 8),
        grid_lines(scale, top=TOP, bottom=bottom, at=at),
        *drawn,
        width=FIGURE_WIDTH,
        height=bottom + 14,
        class_="chart interval-plot",
        aria_label=label,
    )
