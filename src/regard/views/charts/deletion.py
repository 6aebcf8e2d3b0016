"""Deletion test of faithfulness as text and chart: drop in label probability by fraction removed.

One line per order: highest weight first, random, lowest weight first. The band around a line is the 95 %
confidence interval over texts or, for a single text, the range over its random draws. Fractions are on a
logarithmic scale, since the first few words matter most.
"""

from __future__ import annotations

from regard.core.records.document import DeletionRecord, Estimate, OrderRecord
from regard.views.charts.axes import Scale, grid
from regard.views.charts.cost_curves import spread_labels
from regard.views.charts.variants import counted
from regard.views.pages.html import Markup, element, joined, svg
from regard.views.text.numbers import percent_text

# The fraction that the summary reports.
REPORTED_FRACTION = 0.1
# Smaller changes are reported as none.
MIN_CHANGE = 0.005
NAMES = {"top": "highest weight", "random": "random", "least": "lowest weight"}


def deletion_sentence(record: DeletionRecord, *, fraction: float = REPORTED_FRACTION) -> str:
    """Effect of removing the tested fraction of words nearest to `fraction`."""
    index = record.index_of(fraction)
    drops = [order.drops[index].mean for order in record.orders().values()]
    one = record.texts == 1
    count = f"{record.removed[index]:.0f}"
    if one and count == "1":
        which, random, least = (
            "the word with the highest weight",
            "a random one",
            "the one with the lowest",
        )
    else:
        how_many = f" ({count} words)" if one else ""
        which = f"the {percent_text(record.fractions[index])} of words with the highest weight{how_many}"
        random, least = "random words", "those with the lowest weight"
    draws = f" (mean of {counted(record.draws, 'draw')})" if one else ""
    sentence = (
        f"emoving {which} {_verb(drops[0])} the probability of the label{_by(drops[0])}, "
        f"removing {random} {_relative_to(drops[1], drops[0])}{draws}, "
        f"and removing {least} {_relative_to(drops[2], drops[0])}."
    )
    return f"R{sentence}" if one else f"Over {record.texts} texts, r{sentence}"


def deletion_verdict(record: DeletionRecord, *, fraction: float = REPORTED_FRACTION) -> str:
    """Whether the weights are faithful: against random words, and for the lowest weights."""
    return f"{_against_random(record, fraction=fraction)} {_low_weight_note(record)}".rstrip()


def _against_random(record: DeletionRecord, *, fraction: float) -> str:
    difference = record.differences[record.index_of(fraction)]
    low, high = (
        difference.mean if end is None else end for end in (difference.low, difference.high)
    )
    # A difference that is reported as none counts as none.
    if abs(difference.mean) < MIN_CHANGE:
        low, high = 0.0, 0.0
    if record.texts == 1:
        if low > 0:
            return "The drop exceeds every random draw: the label depends on these words."
        if high < 0:
            return "The drop is below every random draw: the label depends on other words."
        return (
            "Random words have the same effect: the weights do not show what the label depends on."
        )
    by = f" (difference {estimate_text(difference)})"
    if low > 0:
        return f"The label depends on the highest-weight words more than on random ones{by}."
    if high < 0:
        return f"The label depends on the highest-weight words less than on random ones{by}."
    return f"Inconclusive: no difference from random words detected{by}."


def _low_weight_note(record: DeletionRecord) -> str:
    """Evidence against the weights: the lowest-weight words have a larger effect than random ones.

    Reported at the fraction where the two bands are furthest apart; empty if they overlap everywhere.
    """
    gaps = []
    for index, (random, least) in enumerate(
        zip(record.random.drops, record.least.drops, strict=True)
    ):
        low = least.mean if least.low is None else least.low
        high = random.mean if random.high is None else random.high
        gaps.append((low - high, index))
    gap, index = max(gaps)
    if gap < MIN_CHANGE:
        return ""
    return (
        f"But removing the {percent_text(record.fractions[index])} with the lowest weight lowers it by "
        f"{_two(record.least.drops[index].mean)}, more than random words "
        f"({_two(record.random.drops[index].mean)}): low-weight words matter too."
    )


def estimate_text(estimate: Estimate) -> str:
    """A mean with its interval, to two decimals.

    >>> estimate_text(Estimate(mean=0.314, low=0.28, high=0.351))
    '0.31 (0.28 to 0.35)'
    """
    if estimate.low is None or estimate.high is None:
        return _two(estimate.mean)
    return f"{_two(estimate.mean)} ({_two(estimate.low)} to {_two(estimate.high)})"


def _two(number: float) -> str:
    text = f"{number:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "−")


def _verb(drop: float) -> str:
    if abs(drop) < MIN_CHANGE:
        return "leaves"
    return "lowers" if drop > 0 else "raises"


def _by(drop: float) -> str:
    return " unchanged" if abs(drop) < MIN_CHANGE else f" by {abs(drop):.2f}"


def _relative_to(drop: float, first: float) -> str:
    """The effect of another order, as the continuation of the first."""
    if abs(drop) < MIN_CHANGE:
        return "leaves it unchanged" if abs(first) >= MIN_CHANGE else "does too"
    return _by(drop).strip() if _verb(drop) == _verb(first) else f"{_verb(drop)} it{_by(drop)}"


WIDTH, HEIGHT = 460.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 350.0, 34.0, 250.0
LINE_HEIGHT = 16.0
# Minimum upper end of the scale, so that noise does not fill the chart.
MIN_RANGE = 0.1


def deletion_chart(record: DeletionRecord) -> Markup:
    """The chart as SVG, in the colours of the page."""
    up = drop_scale(record, start=BOTTOM, end=TOP)
    across = fraction_scale(record, start=LEFT, end=RIGHT)
    orders = record.orders()
    named = sorted(orders, key=lambda name: -orders[name].drops[-1].mean)
    ends = [up.position(orders[name].drops[-1].mean) for name in named]
    labels = spread_labels(ends, spacing=LINE_HEIGHT, top=TOP)
    drawn = [
        _order(name, orders[name], record.fractions, across=across, up=up, label=label)
        for name, label in zip(named, labels, strict=True)
    ]
    return svg(
        grid(across, up, x_ticks=[(each, percent_text(each)) for each in record.fractions]),
        element("line", class_="zero", x1=LEFT, x2=RIGHT, y1=up.position(0.0), y2=up.position(0.0)),
        element("text", "drop of the label’s probability", class_="unit", x=4, y=TOP - 14),
        element("text", "words removed", class_="unit", x=RIGHT, y=BOTTOM + 38, text_anchor="end"),
        *drawn,
        width=WIDTH,
        height=HEIGHT,
        class_="deletion-chart",
        aria_label=deletion_sentence(record),
    )


def drop_scale(record: DeletionRecord, *, start: float, end: float) -> Scale:
    """A scale for all lines and bands that includes 0."""
    values = [
        value
        for order in record.orders().values()
        for drop in order.drops
        for value in (drop.mean, drop.low, drop.high)
        if value is not None
    ]
    low, high = min(0.0, *values), max(0.0, MIN_RANGE, *values)
    padding = (high - low) * 0.04
    return Scale(low - padding if low < 0 else 0.0, high + padding, start, end)


def fraction_scale(record: DeletionRecord, *, start: float, end: float) -> Scale:
    """Logarithmic scale of the fractions; a single one is centred."""
    first, last = record.fractions[0], record.fractions[-1]
    if first == last:
        first, last = first / 2, last * 2
    return Scale(first, last, start, end, logarithmic=True)


def _order(
    name: str,
    order: OrderRecord,
    fractions: tuple[float, ...],
    *,
    across: Scale,
    up: Scale,
    label: float,
) -> Markup:
    def path(values: list[float]) -> list[str]:
        points = zip(map(across.position, fractions), map(up.position, values), strict=True)
        return [f"{x:.1f},{y:.1f}" for x, y in points]

    line = path([drop.mean for drop in order.drops])
    low, high = (path([_end(drop, end) for drop in order.drops]) for end in ("low", "high"))
    dots = [
        element(
            "circle",
            element(
                "title", f"{percent_text(fraction)} removed, {NAMES[name]}: {estimate_text(drop)}"
            ),
            cx=across.position(fraction),
            cy=up.position(drop.mean),
            r=3.5,
        )
        for fraction, drop in zip(fractions, order.drops, strict=True)
    ]
    return element(
        "g",
        element("polygon", class_="band", points=" ".join([*high, *reversed(low)])),
        element("polyline", class_="stroke", points=" ".join(line)),
        joined(*dots),
        element("text", NAMES[name], x=RIGHT + 12, y=label + 4),
        class_=f"order {name}",
    )


def _end(estimate: Estimate, end: str) -> float:
    value: float | None = getattr(estimate, end)
    return estimate.mean if value is None else value
