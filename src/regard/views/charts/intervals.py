"""One row of a dot-and-whisker chart: what was seen as dots, the mean as a bar, its interval as a line.

All rows of a chart share a scale. A whisker that would leave it ends in an arrow: with two seeds an
interval is so wide that the dots would be lost beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from regard.core.records.study import StudyRecord, VariantRecord
from regard.views.charts.axes import Scale, scale_around, tick_text
from regard.views.charts.variants import interval_text, variant_class, variant_label, variant_number
from regard.views.pages.html import Markup, element, joined

WIDTH, HEIGHT, SIDE = 300.0, 34.0, 12.0
# How far beyond the dots whiskers may stretch the scale, in spans of the dots.
STRETCH = 0.5


def shared_scale(
    dots: Iterable[float],
    intervals: Iterable[tuple[float | None, float | None]],
    *,
    start: float = SIDE,
    end: float = WIDTH - SIDE,
) -> Scale | None:
    """A scale for all dots, and for whiskers as long as they are not much longer; None without dots."""
    found = list(dots)
    if not found:
        return None
    low, high = min(found), max(found)
    reach = STRETCH * (high - low or abs(high) / 10 or 1.0)
    ends = [end for pair in intervals for end in pair if end is not None]
    kept = [min(max(end, low - reach), high + reach) for end in ends]
    if low >= 0:
        kept = [max(end, 0.0) for end in kept]
    return scale_around([*found, *kept], start=start, end=end)


def dot_row(
    scale: Scale,
    *,
    middle: float,
    mean: float | None,
    low: float | None,
    high: float | None,
    dots: Sequence[tuple[str, float]] = (),
) -> Markup:
    """The marks of one row, around the height `middle`. A dot is a title and a number."""
    parts = []
    if low is not None and high is not None:
        left, right = scale.place(scale.held(low)), scale.place(scale.held(high))
        parts.append(element("line", class_="whisker", x1=left, x2=right, y1=middle, y2=middle))
        parts.append(_end(left, middle, outward=-1.0, cut=low < scale.low))
        parts.append(_end(right, middle, outward=1.0, cut=high > scale.high))
    parts += [
        element("circle", element("title", title), cx=scale.place(value), cy=middle, r=4)
        for title, value in dots
    ]
    if mean is not None:
        place = scale.place(scale.held(mean))
        parts.append(
            element("line", class_="mean", x1=place, x2=place, y1=middle - 9, y2=middle + 9)
        )
    return joined(*parts)


def grid_lines(scale: Scale, *, top: float, bottom: float, at: float | None = None) -> Markup:
    """A faint line at every tick, and a stronger one at a number that rows are held against."""
    lines = [
        element("line", class_="grid", x1=place, x2=place, y1=top, y2=bottom)
        for place in map(scale.place, scale.ticks())
    ]
    if at is not None:
        place = scale.place(scale.held(at))
        lines.append(element("line", class_="held", x1=place, x2=place, y1=top, y2=bottom))
    return joined(*lines)


def tick_row(scale: Scale, *, below: float) -> Markup:
    """The numbers of the ticks, on a line of text that ends at the height `below`."""
    return joined(
        *(
            element(
                "text",
                tick_text(tick),
                class_="tick",
                x=scale.place(tick),
                y=below,
                text_anchor="middle",
            )
            for tick in scale.ticks()
        )
    )


def row_picture(*content: str, height: float = HEIGHT, **attributes: str | None) -> Markup:
    """The content as a picture for one cell of a table."""
    return element(
        "svg",
        *content,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        class_="chart dots",
        role="img",
        **attributes,
    )


def _end(place: float, middle: float, *, outward: float, cut: bool) -> Markup:
    if cut:
        back = place - 6 * outward
        points = f"{back:.1f},{middle - 4:.1f} {place:.1f},{middle:.1f} {back:.1f},{middle + 4:.1f}"
        return element("polyline", points=points, class_="whisker")
    return element("line", class_="whisker", x1=place, x2=place, y1=middle - 4, y2=middle + 4)


# How far each variant's attention agrees with known alignments: a row a variant, on one axis.


AXIS_HEIGHT = 26.0


def agreement_chart(record: StudyRecord) -> Markup:
    """The variants of which it is known, the best agreement first; nothing where it is of none."""
    variants = sorted(
        (variant for variant in record.variants if variant.agreement is not None),
        key=lambda variant: -(variant.agreement or 0.0),
    )
    if not variants:
        return Markup("")
    ends = [
        100 * end
        for variant in variants
        for end in (variant.agreement, variant.agreement_low, variant.agreement_high)
        if end is not None
    ]
    held = [min(max(end, 0.0), 100.0) for end in ends]
    around = scale_around(held, start=SIDE, end=WIDTH - SIDE)
    scale = around._replace(high=min(around.high, 100.0))
    axis = joined(
        element("span", "agreement, %", class_="axis-name"),
        row_picture(tick_row(scale, below=AXIS_HEIGHT - 6), height=AXIS_HEIGHT),
    )
    headings = [
        element("th", "variant", scope="col"),
        element("th", axis, scope="col", class_="drawn-cell"),
        element("th", "mean and 95 % interval", scope="col"),
    ]
    return element(
        "table",
        element("thead", element("tr", *headings)),
        element("tbody", *(_row(record, variant, scale) for variant in variants)),
        class_="cards agreement",
    )


def _row(record: StudyRecord, variant: VariantRecord, scale: Scale) -> Markup:
    agreement, low, high = (
        None if share is None else 100 * share
        for share in (variant.agreement, variant.agreement_low, variant.agreement_high)
    )
    assert agreement is not None
    within = interval_text(low, high, decimals=1)
    said = f"{agreement:.1f} %"
    marks = dot_row(
        scale,
        middle=HEIGHT / 2,
        mean=None,
        low=low,
        high=high,
        dots=[(f"{variant.name}: {said}", agreement)],
    )
    drawn = row_picture(
        grid_lines(scale, top=0.0, bottom=HEIGHT),
        element(
            "g",
            marks,
            class_=variant_class(record, variant.name),
            data_variant=variant_number(record, variant.name),
        ),
        aria_label=f"{variant.name}: {said}" + (f", 95 % interval {within}" if within else ""),
    )
    return element(
        "tr",
        element("th", variant_label(record, variant.name), scope="row"),
        element("td", drawn, class_="drawn-cell"),
        element("td", element("b", said), " ", element("small", within)),
    )
