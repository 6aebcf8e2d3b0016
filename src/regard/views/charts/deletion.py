"""Deletion test of faithfulness as text and chart: drop in label probability by fraction removed.

One line per order: highest weight first, random, lowest weight first. The band around a line is the 95 %
confidence interval over texts or, for a single text, the range over its random draws. Fractions are on a
logarithmic scale, since the first few words matter most.
"""

from __future__ import annotations

from markupsafe import Markup

from regard.core.formatting import counted, interval_text, percent_text, score_text
from regard.core.records.document import DeletionRecord, Estimate
from regard.views.charts.axes import Scale
from regard.views.charts.plot import Axis, Line, Plot, plot_chart

# The fraction that the summary reports.
REPORTED_FRACTION = 0.1
# Smaller changes are reported as none.
MIN_CHANGE = 0.005


def deletion_sentence(record: DeletionRecord, *, fraction: float = REPORTED_FRACTION) -> str:
    """Effect of removing the tested fraction of words nearest to `fraction`."""
    index = record.index_of(fraction)
    drops = [order.drops[index].mean for order in record.orders().values()]
    one = record.texts == 1
    count = f"{record.removed[index]:.0f}"
    if one and count == "1":
        which = "the word with the highest weight"
        random, least = "a random one", "the one with the lowest"
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
    return f"R{sentence}" if one else f"Over {counted(record.texts, 'text')}, r{sentence}"


def deletion_verdict(record: DeletionRecord, *, fraction: float = REPORTED_FRACTION) -> str:
    """Whether the weights are faithful: against random words, and for the lowest weights."""
    return f"{_against_random(record, fraction=fraction)} {_low_weight_note(record)}".rstrip()


def _against_random(record: DeletionRecord, *, fraction: float) -> str:
    difference = record.differences[record.index_of(fraction)]
    low, high = _ends(difference)
    # A difference that is reported as none counts as none.
    sign = 0 if abs(difference.mean) < MIN_CHANGE else (low > 0) - (high < 0)
    if record.texts == 1:
        return {
            1: "The drop exceeds every random draw: the label depends on these words.",
            0: "Random words have the same effect: the weights do not show what the label depends on.",
            -1: "The drop is below every random draw: the label depends on other words.",
        }[sign]
    by = f"(difference {estimate_text(difference)})."
    if sign == 0:
        return f"Inconclusive: no difference from random words detected {by}"
    more = "more" if sign > 0 else "less"
    return f"The label depends on the highest-weight words {more} than on random ones {by}"


def _ends(estimate: Estimate) -> tuple[float, float]:
    """The range of an estimate: its mean where nothing varies."""
    low, high = (estimate.mean if end is None else end for end in (estimate.low, estimate.high))
    return low, high


def _low_weight_note(record: DeletionRecord) -> str:
    """Evidence against the weights: the lowest-weight words have a larger effect than random ones.

    Reported at the fraction where the two bands are furthest apart; empty if they overlap everywhere.
    """
    pairs = zip(record.random.drops, record.least.drops, strict=True)
    gaps = [_ends(least)[0] - _ends(random)[1] for random, least in pairs]
    gap, index = max(zip(gaps, range(len(gaps)), strict=True))
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
    mean, interval = _two(estimate.mean), interval_text(estimate.low, estimate.high, decimals=2)
    return f"{mean} ({interval})" if interval else mean


def _two(number: float) -> str:
    return score_text(number, decimals=2)


def _verb(drop: float) -> str:
    if abs(drop) < MIN_CHANGE:
        return "leaves"
    return "lowers" if drop > 0 else "raises"


def _by(drop: float) -> str:
    return " unchanged" if abs(drop) < MIN_CHANGE else f" by {_two(abs(drop))}"


def _relative_to(drop: float, first: float) -> str:
    """The effect of another order, as the continuation of the first."""
    if abs(drop) < MIN_CHANGE:
        return "leaves it unchanged" if abs(first) >= MIN_CHANGE else "does too"
    return _by(drop).strip() if _verb(drop) == _verb(first) else f"{_verb(drop)} it{_by(drop)}"


# Minimum upper end of the scale, so that noise does not fill the chart.
MIN_RANGE = 0.1
NAMES = {"top": "highest weight", "random": "random", "least": "lowest weight"}
TONES: dict[str, int | str] = {"top": 1, "random": "soft", "least": 0}


def deletion_chart(record: DeletionRecord) -> Markup:
    """The chart as SVG, in the colours of the page."""
    first, last = record.fractions[0], record.fractions[-1]
    if first == last:  # in the middle
        first, last = first / 2, last * 2
    lines = [
        Line(
            NAMES[name],
            [(at, drop.mean) for at, drop in zip(record.fractions, order.drops, strict=True)],
            tone=TONES[name],
            dash=dash,
            low=[_ends(drop)[0] for drop in order.drops],
            high=[_ends(drop)[1] for drop in order.drops],
            titles=[
                f"{percent_text(at)} removed, {NAMES[name]}: {estimate_text(drop)}"
                for at, drop in zip(record.fractions, order.drops, strict=True)
            ],
        )
        for dash, (name, order) in enumerate(record.orders().items())
    ]
    zero = Line("", [(first, 0.0), (last, 0.0)], tone="soft", title="no change")
    across = Scale(first, last, 0.0, 1.0, logarithmic=True)
    plot = Plot(
        deletion_sentence(record),
        Axis("words removed", across, [(at, percent_text(at)) for at in record.fractions]),
        Axis("drop of the label’s probability", drop_scale(record)),
        [zero, *lines],
        width=460.0,
        height=216.0,
        class_="deletion-chart",
    )
    return plot_chart(plot)


def drop_scale(record: DeletionRecord) -> Scale:
    """A scale for all lines and bands that includes 0."""
    drops = [drop for order in record.orders().values() for drop in order.drops]
    ends = [end for drop in drops for end in (drop.mean, *_ends(drop))]
    low, high = min(0.0, *ends), max(0.0, MIN_RANGE, *ends)
    padding = (high - low) * 0.04
    return Scale(low - padding if low < 0 else 0.0, high + padding, 0.0, 1.0)
