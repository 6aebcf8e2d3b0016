"""The deletion test as a chart for a page: how far the label's probability falls, by share removed.

A line an order: words with most weight first, at random, least weight first. The band around a line is
the 95 % interval over texts, or, of a single text, from the least to the most of its random draws. The
shares are on a logarithmic scale, since the first few words tell most.
"""

from __future__ import annotations

from regard.core.deletion_record import DeletionRecord, Estimate, OrderRecord
from regard.views.chart_scale import Scale, tick_text
from regard.views.chart_ticks import tick_across, tick_down
from regard.views.cost_chart import spread
from regard.views.deletion_text import NAMES, deletion_sentence, estimate_text
from regard.views.markup import Markup, element, joined
from regard.views.numbers import percent_text

WIDTH, HEIGHT = 460.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 350.0, 34.0, 250.0
LINE_HEIGHT = 16.0
# The scale holds at least so much, so that nothing does not look like something.
LEAST_REACH = 0.1


def deletion_chart(record: DeletionRecord) -> Markup:
    """The chart, in the colours of the page around it."""
    up = fall_scale(record, start=BOTTOM, end=TOP)
    across = share_scale(record, start=LEFT, end=RIGHT)
    orders = record.orders()
    named = sorted(orders, key=lambda name: -orders[name].falls[-1].mean)
    ends = [up.place(orders[name].falls[-1].mean) for name in named]
    labels = spread(ends, least=LINE_HEIGHT, top=TOP)
    drawn = [
        _order(name, orders[name], record.shares, across=across, up=up, label=label)
        for name, label in zip(named, labels, strict=True)
    ]
    return element(
        "svg",
        *(
            tick_across(across.place(share), percent_text(share), top=TOP, bottom=BOTTOM)
            for share in record.shares
        ),
        *(
            tick_down(up.place(tick), tick_text(tick), left=LEFT, right=RIGHT)
            for tick in up.ticks(about=5)
        ),
        element("line", class_="zero", x1=LEFT, x2=RIGHT, y1=up.place(0.0), y2=up.place(0.0)),
        element("text", "fall of the label’s probability", class_="unit", x=4, y=TOP - 14),
        element("text", "words removed", class_="unit", x=RIGHT, y=BOTTOM + 38, text_anchor="end"),
        *drawn,
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        class_="deletion-chart",
        role="img",
        aria_label=deletion_sentence(record),
    )


def fall_scale(record: DeletionRecord, *, start: float, end: float) -> Scale:
    """From the lowest to the highest of all lines and bands; 0 is always on it."""
    values = [
        value
        for order in record.orders().values()
        for fall in order.falls
        for value in (fall.mean, fall.low, fall.high)
        if value is not None
    ]
    low, high = min(0.0, *values), max(0.0, LEAST_REACH, *values)
    air = (high - low) * 0.04
    return Scale(low - air if low < 0 else 0.0, high + air, start, end)


def share_scale(record: DeletionRecord, *, start: float, end: float) -> Scale:
    """Of the shares, logarithmic; a single one stands in the middle."""
    first, last = record.shares[0], record.shares[-1]
    if first == last:
        first, last = first / 2, last * 2
    return Scale(first, last, start, end, logarithmic=True)


def _order(
    name: str,
    order: OrderRecord,
    shares: tuple[float, ...],
    *,
    across: Scale,
    up: Scale,
    label: float,
) -> Markup:
    def path(values: list[float]) -> list[str]:
        places = zip(map(across.place, shares), map(up.place, values), strict=True)
        return [f"{x:.1f},{y:.1f}" for x, y in places]

    line = path([fall.mean for fall in order.falls])
    low, high = (path([_end(fall, end) for fall in order.falls]) for end in ("low", "high"))
    marks = [
        element(
            "circle",
            element(
                "title", f"{percent_text(share)} removed, {NAMES[name]}: {estimate_text(fall)}"
            ),
            cx=across.place(share),
            cy=up.place(fall.mean),
            r=3.5,
        )
        for share, fall in zip(shares, order.falls, strict=True)
    ]
    return element(
        "g",
        element("polygon", class_="band", points=" ".join([*high, *reversed(low)])),
        element("polyline", class_="stroke", points=" ".join(line)),
        joined(*marks),
        element("text", NAMES[name], x=RIGHT + 12, y=label + 4),
        class_=f"order {name}",
    )


def _end(estimate: Estimate, end: str) -> float:
    value: float | None = getattr(estimate, end)
    return estimate.mean if value is None else value
