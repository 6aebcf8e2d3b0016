"""A deletion result in words: one sentence of what it shows, one of what that means, and a table."""

from __future__ import annotations

from regard.core.deletion_record import DeletionRecord, Estimate
from regard.views.cost_text import aligned
from regard.views.numbers import percent_text

# The share that is told of.
TOLD = 0.1
# Smaller changes are written as none.
SMALLEST = 0.005
NAMES = {"top": "most weight", "random": "at random", "least": "least weight"}


def deletion_sentence(record: DeletionRecord, *, share: float = TOLD) -> str:
    """What leaving out the share of words nearest to `share` does."""
    place = record.place_of(share)
    falls = [order.falls[place].mean for order in record.orders().values()]
    one = record.texts == 1
    count = f"{record.removed[place]:.0f}"
    if one and count == "1":
        which, random, least = "the word with most weight", "a random one", "the one with least"
    else:
        how_many = f" ({count} words)" if one else ""
        which = f"the {percent_text(record.shares[place])} of words with most weight{how_many}"
        random, least = "random ones", "those with least"
    draws = f" (mean of {_counted(record.draws, 'draw')})" if one else ""
    said = (
        f"emoving {which} {_moves(falls[0])} the probability of the label{_by(falls[0])}, "
        f"removing {random} {_like(falls[1], falls[0])}{draws}, "
        f"and removing {least} {_like(falls[2], falls[0])}."
    )
    return f"R{said}" if one else f"Over {record.texts} texts, r{said}"


def deletion_verdict(record: DeletionRecord, *, share: float = TOLD) -> str:
    """Whether that is more than random words do, and whether words of little weight count too."""
    return f"{_against_random(record, share=share)} {_little_weight(record)}".rstrip()


def _against_random(record: DeletionRecord, *, share: float) -> str:
    difference = record.differences[record.place_of(share)]
    low, high = (
        difference.mean if end is None else end for end in (difference.low, difference.high)
    )
    # A difference that would be written as none is none, however sure.
    if abs(difference.mean) < SMALLEST:
        low, high = 0.0, 0.0
    if record.texts == 1:
        if low > 0:
            return (
                "The first does more than any of the random draws: the label hangs on these words."
            )
        if high < 0:
            return (
                "The first does less than any of the random draws: the label hangs on other words."
            )
        return "Random draws do as much: the weights do not show which words the label hangs on."
    by = f" (difference {estimate_text(difference)})"
    if low > 0:
        return f"The label hangs on the words with most weight more than on random ones{by}."
    if high < 0:
        return f"The label hangs on the words with most weight less than on random ones{by}."
    return (
        f"The first two cannot be told apart: the weights do not show what the label hangs on{by}."
    )


def _little_weight(record: DeletionRecord) -> str:
    """What speaks against the weights at any share; nothing where nothing does.

    The words with least weight should count less than random ones. That they count more is said where the
    bands of the two are apart, at the share where they are furthest so.
    """
    apart = []
    for place, (random, least) in enumerate(
        zip(record.random.falls, record.least.falls, strict=True)
    ):
        low = least.mean if least.low is None else least.low
        high = random.mean if random.high is None else random.high
        apart.append((low - high, place))
    gap, place = max(apart)
    if gap < SMALLEST:
        return ""
    return (
        f"But removing the {percent_text(record.shares[place])} with least weight lowers it by "
        f"{_two(record.least.falls[place].mean)}, more than random ones "
        f"({_two(record.random.falls[place].mean)}): words with little weight count too."
    )


def deletion_table(record: DeletionRecord) -> str:
    """Lines for a terminal: a row a share, the last row the area; then what it shows, in words."""
    head = ["removed", "words", *NAMES.values(), "difference", "flips", "at random"]
    rows = [head]
    for place, share in enumerate(record.shares):
        rows.append(
            [
                percent_text(share),
                f"{record.removed[place]:.1f}",
                *(_two(order.falls[place].mean) for order in record.orders().values()),
                estimate_text(record.differences[place]),
                percent_text(record.top.flips[place].mean),
                percent_text(record.random.flips[place].mean),
            ]
        )
    areas = [_two(order.area.mean) for order in record.orders().values()]
    rows.append(["area", "", *areas, estimate_text(record.area_difference), "", ""])
    ends = "least and most of the draws" if record.texts == 1 else "95 % interval over texts"
    given = [
        f"Fall of the label's probability, {_counted(record.texts, 'text')}, "
        f"{_counted(record.draws, 'random draw')} each",
        "flips: texts that get another label without the words of most weight, and at random",
        f"in brackets: {ends}",
    ]
    if record.left_out:
        given.append(f"{_counted(record.left_out, 'text')} of less than two words left out")
    told = [deletion_sentence(record), deletion_verdict(record)]
    return "\n".join([*aligned(rows, left=()), "", *(f"{line}." for line in given), "", *told])


def estimate_text(estimate: Estimate) -> str:
    """A mean and its ends, to two decimals.

    >>> estimate_text(Estimate(mean=0.314, low=0.28, high=0.351))
    '0.31 (0.28 to 0.35)'
    """
    if estimate.low is None or estimate.high is None:
        return _two(estimate.mean)
    return f"{_two(estimate.mean)} ({_two(estimate.low)} to {_two(estimate.high)})"


def _two(number: float) -> str:
    text = f"{number:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "−")


def _moves(fall: float) -> str:
    if abs(fall) < SMALLEST:
        return "leaves"
    return "lowers" if fall > 0 else "raises"


def _by(fall: float) -> str:
    return " as it is" if abs(fall) < SMALLEST else f" by {abs(fall):.2f}"


def _like(fall: float, first: float) -> str:
    """The same of another order, told after the first."""
    if abs(fall) < SMALLEST:
        return "leaves it as it is" if abs(first) >= SMALLEST else "does too"
    return _by(fall).strip() if _moves(fall) == _moves(first) else f"{_moves(fall)} it{_by(fall)}"


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
