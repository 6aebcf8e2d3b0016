"""The deletion test as a chart for a page: how far the label's probability falls, by share removed.

A line an order: words with most weight first, at random, least weight first. The band around a line is
the 95 % interval over texts, or, of a single text, from the least to the most of its random draws. The
shares are on a logarithmic scale, since the first few words tell most.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.core.records.document import DeletionRecord, Estimate, OrderRecord
from regard.views.charts.axes import Scale, tick_across, tick_down, tick_text
from regard.views.charts.cost_curves import spread
from regard.views.charts.document_words import wrapped_lines
from regard.views.charts.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    write_figure,
)
from regard.views.pages.html import Markup, element, joined
from regard.views.text.costs import aligned
from regard.views.text.numbers import percent_text

# A deletion result in words: one sentence of what it shows, one of what that means, and a table.


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


# The deletion test as a picture in a file: the chart of `deletion_chart.py`, drawn by matplotlib.


# Inches.
FILE_WIDTH, CHART_HEIGHT, FILE_LEFT, FILE_RIGHT, FILE_BOTTOM, MARGIN = 6.4, 2.6, 0.7, 1.25, 0.6, 0.2
LINE, TEXT_SIZE, LABEL_ROOM = 0.2, 9.5, 0.17
COLOURS = {"top": "#b8480f", "random": QUIET_INK, "least": "#2463b4"}
STYLES = {"top": "-", "random": "--", "least": ":"}
GRID = "#eaeef2"


def draw_deletion(record: DeletionRecord, *, path: Path) -> None:
    """Write the picture, with the sentence of what it shows above it, to `path`: an .svg or a .png."""
    require_figure_suffix(path)
    with figure_settings():
        lines = deletion_lines(record, room=FILE_WIDTH - 2 * MARGIN)
        top = MARGIN + LINE * len(lines)
        sheet = Sheet(width=FILE_WIDTH, height=top + deletion_height())
        for number, line in enumerate(lines):
            sheet.text(MARGIN, MARGIN + LINE * number, line, size=TEXT_SIZE, va="top")
        add_deletion(sheet, record, top=top)
        write_figure(sheet.figure, path=path)


def deletion_lines(record: DeletionRecord, *, room: float) -> list[str]:
    """What the chart shows and what that means, in lines of at most so many inches."""
    said = f"{deletion_sentence(record)} {deletion_verdict(record)}"
    return wrapped_lines(said, room=room, font_size=TEXT_SIZE)


def deletion_height() -> float:
    """How much room the chart takes, its name above and its axis below it included."""
    return 0.4 + CHART_HEIGHT + FILE_BOTTOM


def add_deletion(sheet: Sheet, record: DeletionRecord, *, top: float) -> None:
    """Put the chart on a sheet, from `top` on."""
    axes = sheet.axes(FILE_LEFT, top + 0.4, FILE_WIDTH - FILE_LEFT - FILE_RIGHT, CHART_HEIGHT)
    up, across = (scale(record, start=0.0, end=1.0) for scale in (fall_scale, share_scale))
    axes.set_xscale("log")
    axes.set_xlim(across.low, across.high)
    axes.set_ylim(up.low, up.high)
    axes.set_xticks(record.shares, labels=[percent_text(share) for share in record.shares])
    axes.minorticks_off()
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.axhline(0.0, color=QUIET_INK, lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5)
    axes.set_xlabel("words removed", fontsize=TEXT_SIZE)
    sheet.text(MARGIN, top + 0.3, "fall of the label’s probability", size=TEXT_SIZE, weight="bold")
    _draw_orders(axes, record)


def _draw_orders(axes: Any, record: DeletionRecord) -> None:
    orders = record.orders()
    named = sorted(orders, key=lambda name: -orders[name].falls[-1].mean)
    up = fall_scale(record, start=CHART_HEIGHT, end=0.0)
    ends = [up.place(orders[name].falls[-1].mean) for name in named]
    for name, label in zip(named, spread(ends, least=LABEL_ROOM, top=0.0), strict=True):
        falls, colour = orders[name].falls, COLOURS[name]
        means = [fall.mean for fall in falls]
        low, high = (
            [fall.mean if end is None else end for fall, end in zip(falls, side, strict=True)]
            for side in ([fall.low for fall in falls], [fall.high for fall in falls])
        )
        axes.fill_between(record.shares, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(
            record.shares,
            means,
            color=colour,
            ls=STYLES[name],
            lw=1.7,
            marker="o",
            ms=4,
            clip_on=False,
        )
        axes.annotate(
            NAMES[name],
            (1.02, 1 - label / CHART_HEIGHT),
            xycoords="axes fraction",
            va="center",
            color=colour,
            fontsize=TEXT_SIZE,
        )
