"""Reliability diagram for a page: how often predictions are right, against how sure the model was.

A model that is as sure as it has reason to be lies on the diagonal; below it, it is too sure. The size of a
dot tells how many predictions it stands for, and a line leads from it to where it should be.
(DeGroot & Fienberg 1983; for networks, Guo et al. 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.errors import RegardError
from regard.views.chart_scale import Scale
from regard.views.chart_ticks import tick_across, tick_down
from regard.views.markup import Markup, element
from regard.views.numbers import spaced

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
