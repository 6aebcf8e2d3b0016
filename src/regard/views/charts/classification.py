"""Confusion matrix and reliability diagram of a classifier, for a page.

The confusion matrix has one row per true label and one column per predicted label. Cells are shaded by
their fraction of the row, so that rare labels are visible: correct predictions in one colour, errors in
another; the last column is the recall.

The reliability diagram plots accuracy against confidence. A calibrated model lies on the diagonal, an
overconfident one below it. The area of a dot is the number of predictions in its bin. (DeGroot & Fienberg
1983; for neural networks, Guo et al. 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.errors import RegardError
from regard.views.charts.axes import Scale, grid
from regard.views.charts.heatmap import opacity
from regard.views.pages.html import Markup, element, heading, joined, row, scrolled, svg, table
from regard.views.text.numbers import spaced


def confusion_table(*, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """Confusion matrix; `counts[i][j]` items of true label i were predicted as label j."""
    if len(counts) != len(labels) or any(len(row) != len(labels) for row in counts):
        raise RegardError(
            f"There are {len(labels)} labels, but counts is not a {len(labels)} × {len(labels)} matrix. "
            "Pass the values of a confusion record."
        )
    heads = [heading(element("span", label)) for label in labels]
    rows = [
        _row(label, each, number=number, labels=labels)
        for number, (label, each) in enumerate(zip(labels, counts, strict=True))
    ]
    corner = element("td", "true \\ predicted")
    matrix = table([corner, *heads, "recall"], rows, class_="matrix confusion")
    hint = element(
        "p",
        "Rows are true labels, columns predicted labels; a cell is shaded by its fraction of the row. "
        "Cells off the diagonal are errors.",
        class_="hint",
    )
    return joined(hint, scrolled(matrix, "Confusion matrix"))


def _row(label: str, counts: Sequence[int], *, number: int, labels: Sequence[str]) -> Markup:
    total = sum(counts)
    cells = []
    for column, count in enumerate(counts):
        fraction = count / total if total else 0.0
        correct = column == number
        predicted = "correct" if correct else f"predicted as {labels[column]}"
        cells.append(
            element(
                "td",
                spaced(count) if count else "",
                title=f"{label}, {predicted}: {spaced(count)} of {spaced(total)} ({100 * fraction:.1f} %)",
                style=_shade(fraction, correct=correct) if count else None,
            )
        )
    recall = f"{100 * counts[number] / total:.0f}\u202f%" if total else "–"
    return row(label, *cells, element("td", recall, class_="recall"))


def _shade(fraction: float, *, correct: bool) -> str:
    colour = "--plus" if correct else "--minus"
    # At most half, so that the number stays readable.
    percent = 50 * opacity(fraction, limit=1.0)
    return f"background:color-mix(in srgb, var({colour}) {percent:.0f}%, transparent)"


WIDTH, HEIGHT = 560.0, 520.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 520.0, 24.0, 466.0
MAX_RADIUS, MIN_RADIUS = 16.0, 3.0


def reliability_chart(bins: Sequence[Mapping[str, Any]], *, error: float) -> Markup:
    """Reliability diagram of the bins of a calibration record; `error` is its ECE."""
    filled = [each for each in bins if each["items"]]
    if not filled:
        raise RegardError(
            f"All {len(bins)} bins are empty, so there is nothing to draw. "
            "Pass the bins of a calibration record."
        )
    across, up = Scale(0.0, 100.0, LEFT, RIGHT), Scale(0.0, 100.0, BOTTOM, TOP)
    most = max(each["items"] for each in filled)
    summary = f"expected calibration error {100 * error:.1f} points, {len(bins)} equal bins"
    return svg(
        grid(across, up),
        element(
            "line",
            class_="diagonal",
            x1=LEFT,
            y1=BOTTOM,
            x2=RIGHT,
            y2=TOP,
            style="stroke:var(--soft);stroke-dasharray:5 4",
        ),
        element("text", "accuracy, %", class_="unit", x=LEFT, y=TOP - 9),
        element("text", "confidence, %", class_="unit", x=RIGHT, y=BOTTOM + 38, text_anchor="end"),
        element("text", summary, class_="unit", x=LEFT, y=BOTTOM + 38),
        *(_dot(each, across=across, up=up, most=most) for each in filled),
        width=WIDTH,
        height=HEIGHT,
        class_="cost-chart reliability",
        style=f"min-width:0;max-width:{WIDTH:.0f}px",
        aria_label=f"Reliability diagram: accuracy against confidence; {summary}.",
    )


def _dot(each: Mapping[str, Any], *, across: Scale, up: Scale, most: int) -> Markup:
    confidence, accuracy = 100 * each["confidence"], 100 * each["accuracy"]
    x, y = across.position(confidence), up.position(accuracy)
    colour = "var(--minus)" if accuracy < confidence else "var(--plus)"
    count = spaced(each["items"])
    title = f"{count} predictions: confidence {confidence:.1f} %, accuracy {accuracy:.1f} %"
    radius = max(MIN_RADIUS, MAX_RADIUS * math.sqrt(each["items"] / most))
    return element(
        "g",
        element("title", title),
        element("line", x1=x, x2=x, y1=y, y2=up.position(confidence), style=f"stroke:{colour}"),
        element("circle", cx=x, cy=y, r=radius, style=f"fill:{colour};fill-opacity:.75"),
        class_="bin",
    )
