"""Which label was taken for which, as a table for a page: a row a right label, a column a predicted one.

A cell is shaded by its share of the row, so that rare labels are seen as well as common ones: right ones in
one colour, mistakes in another. Beside each row stands how much of it was found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.errors import RegardError
from regard.views.charts.axes import Scale, tick_across, tick_down
from regard.views.charts.heatmap import opacity
from regard.views.pages.html import Markup, element, joined
from regard.views.text.numbers import spaced


def confusion_table(*, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """The table of the counts of a confusion record: `counts[i][j]` items of label i, taken for j."""
    if len(counts) != len(labels) or any(len(row) != len(labels) for row in counts):
        raise RegardError(
            f"There are {len(labels)} labels, but the counts are not {len(labels)} rows of as many. "
            "Give a confusion record as it was written."
        )
    heads = [element("th", element("span", label), scope="col") for label in labels]
    rows = [
        _row(label, row, number=number, labels=labels)
        for number, (label, row) in enumerate(zip(labels, counts, strict=True))
    ]
    table = element(
        "table",
        element(
            "thead",
            element(
                "tr", element("td", "right, said:"), *heads, element("th", "found", scope="col")
            ),
        ),
        element("tbody", *rows),
        class_="matrix confusion",
    )
    hint = element(
        "p",
        "A row holds the texts of one label; a cell says how many of them got the label above it, and is "
        "shaded by their share. What stands off the diagonal is wrong.",
        class_="hint",
    )
    scrolled = element(
        "div",
        table,
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Right and said labels",
    )
    return joined(hint, scrolled)


def _row(label: str, row: Sequence[int], *, number: int, labels: Sequence[str]) -> Markup:
    total = sum(row)
    cells = []
    for column, count in enumerate(row):
        share = count / total if total else 0.0
        right = column == number
        said = "said right" if right else f"taken for {labels[column]}"
        cells.append(
            element(
                "td",
                spaced(count) if count else "",
                title=f"{label}, {said}: {spaced(count)} of {spaced(total)} ({100 * share:.1f} %)",
                style=_shade(share, right=right) if count else None,
            )
        )
    found = f"{100 * row[number] / total:.0f}\u202f%" if total else "–"
    head = element("th", label, scope="row")
    return element("tr", head, *cells, element("td", found, class_="found"))


def _shade(share: float, *, right: bool) -> str:
    """A colour of the page, light or dark as that is, as strong as the share is large."""
    colour = "--plus" if right else "--minus"
    # Half at most, so that the number on it stays readable on both grounds.
    strength = 50 * opacity(share, limit=1.0)
    return f"background:color-mix(in srgb, var({colour}) {strength:.0f}%, transparent)"


# Reliability diagram for a page: how often predictions are right, against how sure the model was.
#
# A model that is as sure as it has reason to be lies on the diagonal; below it, it is too sure. The
# size of a dot tells how many predictions it stands for, and a line leads from it to where it
# should be. (DeGroot & Fienberg 1983; for networks, Guo et al. 2017.)


WIDTH, HEIGHT = 560.0, 520.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 520.0, 24.0, 466.0
LARGEST, SMALLEST = 16.0, 3.0


def reliability_chart(bins: Sequence[Mapping[str, Any]], *, error: float) -> Markup:
    """The chart of the bins of a calibration record and its expected calibration error."""
    filled = [each for each in bins if each["items"]]
    if not filled:
        raise RegardError(
            f"None of the {len(bins)} bins holds a prediction, so there is nothing to draw. "
            "Give a calibration record as it was written."
        )
    across, up = Scale(0.0, 100.0, LEFT, RIGHT), Scale(0.0, 100.0, BOTTOM, TOP)
    most = max(each["items"] for each in filled)
    ticks = [(tick, f"{tick:.0f}") for tick in across.ticks()]
    said = f"expected calibration error {100 * error:.1f} points, {len(bins)} equal bins"
    return element(
        "svg",
        *(tick_across(across.place(tick), text, top=TOP, bottom=BOTTOM) for tick, text in ticks),
        *(tick_down(up.place(tick), text, left=LEFT, right=RIGHT) for tick, text in ticks),
        element(
            "line",
            class_="diagonal",
            x1=LEFT,
            y1=BOTTOM,
            x2=RIGHT,
            y2=TOP,
            style="stroke:var(--soft);stroke-dasharray:5 4",
        ),
        element("text", "right, %", class_="unit", x=LEFT, y=TOP - 9),
        element("text", "sure, %", class_="unit", x=RIGHT, y=BOTTOM + 38, text_anchor="end"),
        element("text", said, class_="unit", x=LEFT, y=BOTTOM + 38),
        *(_dot(each, across=across, up=up, most=most) for each in filled),
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        class_="cost-chart reliability",
        style=f"min-width:0;max-width:{WIDTH:.0f}px",
        role="img",
        aria_label=f"How often predictions are right against how sure they are; {said}.",
    )


def _dot(each: Mapping[str, Any], *, across: Scale, up: Scale, most: int) -> Markup:
    sure, right = 100 * each["confidence"], 100 * each["accuracy"]
    x, y = across.place(sure), up.place(right)
    colour = "var(--minus)" if right < sure else "var(--plus)"
    title = f"{spaced(each['items'])} predictions: {sure:.1f} % sure, {right:.1f} % right"
    # The area follows the number.
    radius = max(SMALLEST, LARGEST * math.sqrt(each["items"] / most))
    return element(
        "g",
        element("title", title),
        element("line", x1=x, x2=x, y1=y, y2=up.place(sure), style=f"stroke:{colour}"),
        element("circle", cx=x, cy=y, r=radius, style=f"fill:{colour};fill-opacity:.75"),
        class_="bin",
    )
