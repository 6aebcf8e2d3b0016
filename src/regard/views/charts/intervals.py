"""Interval plots (dot-and-whisker): observations as dots, the mean as a bar, the interval as a whisker.

All rows of a plot share a scale. A whisker that leaves it ends in an arrow, since with two seeds an
interval may far exceed the range of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regard.core.records.study import StudyRecord, VariantRecord
from regard.views.charts.axes import Scale, fit_scale, tick_text
from regard.views.charts.variants import interval_text, variant_class, variant_label, variant_number
from regard.views.pages.html import Markup, element, heading, joined, row, svg, table

WIDTH, HEIGHT, SIDE, AXIS_HEIGHT = 300.0, 34.0, 12.0, 26.0
# How far whiskers may extend the scale beyond the dots, relative to the range of the dots.
MAX_EXTENSION = 0.5


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


def interval_plot(
    scale: Scale,
    *,
    middle: float,
    mean: float | None,
    low: float | None,
    high: float | None,
    dots: Sequence[tuple[str, float]] = (),
) -> Markup:
    """One row, centred at the height `middle`; a dot is a title and a value."""
    parts = []
    if low is not None and high is not None:
        left, right = scale.position(scale.clamp(low)), scale.position(scale.clamp(high))
        parts.append(element("line", class_="whisker", x1=left, x2=right, y1=middle, y2=middle))
        parts.append(_cap(left, middle, direction=-1.0, clipped=low < scale.low))
        parts.append(_cap(right, middle, direction=1.0, clipped=high > scale.high))
    parts += [
        element("circle", element("title", title), cx=scale.position(value), cy=middle, r=4)
        for title, value in dots
    ]
    if mean is not None:
        x = scale.position(scale.clamp(mean))
        parts.append(element("line", class_="mean", x1=x, x2=x, y1=middle - 9, y2=middle + 9))
    return joined(*parts)


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
    placed = [(tick_text(tick), scale.position(tick)) for tick in scale.ticks()]
    return joined(
        *(
            element("text", text, class_="tick", x=x, y=below, text_anchor="middle")
            for text, x in placed
        )
    )


def row_svg(*content: str, height: float = HEIGHT, **attributes: str | None) -> Markup:
    """An SVG for one cell of a table."""
    return svg(
        *content, width=WIDTH, height=height, class_="chart interval-plot", role="img", **attributes
    )


def axis_heading(name: Markup, scale: Scale | None) -> Markup:
    """The heading of the column of a table that has the rows of a plot."""
    axis = row_svg(tick_labels(scale, below=AXIS_HEIGHT - 6), height=AXIS_HEIGHT) if scale else ""
    return heading(joined(name, axis), class_="chart-cell")


def with_interval(text: str, within: str) -> Markup:
    """A value in bold with its interval."""
    return joined(element("b", text), " ", element("small", within or "no interval"))


def _cap(x: float, middle: float, *, direction: float, clipped: bool) -> Markup:
    """The end of a whisker: a bar, or an arrow if it is clipped."""
    if clipped:
        back = x - 6 * direction
        points = f"{back:.1f},{middle - 4:.1f} {x:.1f},{middle:.1f} {back:.1f},{middle + 4:.1f}"
        return element("polyline", points=points, class_="whisker")
    return element("line", class_="whisker", x1=x, x2=x, y1=middle - 4, y2=middle + 4)


def agreement_chart(record: StudyRecord) -> Markup:
    """Agreement of each variant's attention with known alignments, best first; empty if unknown.

    In the order of the study if it is not finished.
    """
    variants = [variant for variant in record.variants if variant.agreement is not None]
    if record.is_finished:
        variants.sort(key=lambda variant: -(variant.agreement or 0.0))
    if not variants:
        return Markup("")
    ends = [
        100 * end
        for variant in variants
        for end in (variant.agreement, variant.agreement_low, variant.agreement_high)
        if end is not None
    ]
    clipped = [min(max(end, 0.0), 100.0) for end in ends]
    around = fit_scale(clipped, start=SIDE, end=WIDTH - SIDE)
    scale = around._replace(high=min(around.high, 100.0))
    axis = axis_heading(element("span", "agreement, %", class_="axis-name"), scale)
    rows = [_row(record, variant, scale) for variant in variants]
    return table(["variant", axis, "mean and 95 % interval"], rows, class_="cards agreement")


def _row(record: StudyRecord, variant: VariantRecord, scale: Scale) -> Markup:
    agreement, low, high = (
        None if value is None else 100 * value
        for value in (variant.agreement, variant.agreement_low, variant.agreement_high)
    )
    assert agreement is not None
    within = interval_text(low, high, decimals=1)
    text = f"{agreement:.1f} %"
    plot = interval_plot(
        scale,
        middle=HEIGHT / 2,
        mean=None,
        low=low,
        high=high,
        dots=[(f"{variant.name}: {text}", agreement)],
    )
    chart = row_svg(
        grid_lines(scale, top=0.0, bottom=HEIGHT),
        element(
            "g",
            plot,
            class_=variant_class(record, variant.name),
            data_variant=variant_number(record, variant.name),
        ),
        aria_label=f"{variant.name}: {text}" + (f", 95 % interval {within}" if within else ""),
    )
    return row(
        variant_label(record, variant.name),
        element("td", chart, class_="chart-cell"),
        element("td", with_interval(text, within)),
    )
