"""Predicted time against length, both on logarithmic scales, for a page: a line each, named at its end.

It takes its colours from the page, so it is light or dark as that is.
"""

from __future__ import annotations

import math

from regard.core.cost_report import CostReport, Curve
from regard.views.chart_ticks import tick_across, tick_down
from regard.views.cost_chart import spread
from regard.views.markup import Markup, element
from regard.views.numbers import humanised, seconds_text, spaced
from regard.views.time_scale import Mark, height_name, height_text, length_ticks, marks, ranges

WIDTH = 1000
LEFT, RIGHT, TOP, HEIGHT, ROOM_BELOW = 64.0, 740.0, 24.0, 520.0, 50.0


def time_chart(report: CostReport) -> Markup:
    """The chart; nothing where there is nothing to draw."""
    found = ranges(report)
    if found is None:
        return Markup("")
    bottom = TOP + HEIGHT

    def across(length: int) -> float:
        share = math.log(length / found.shortest) / math.log(found.longest / found.shortest)
        return LEFT + (RIGHT - LEFT) * share

    def down(height: float) -> float:
        share = (math.log10(height) - found.floor) / (found.ceiling - found.floor)
        return bottom - HEIGHT * share

    def line(curve: Curve, label: float) -> Markup:
        places = [(across(length), down(height)) for length, height in curve.points if height > 0]
        return _line(report, curve, places=places, label=label)

    def drawn(mark: Mark) -> Markup:
        places = [
            (across(crossing.length), down(crossing.height), crossing.sentence)
            for crossing in mark.crossings
            if crossing.length is not None and crossing.height is not None
        ]
        x, y = across(mark.length), down(mark.height)
        return element(
            "g",
            *(
                element("circle", element("title", sentence), cx=cx, cy=cy, r=6)
                for cx, cy, sentence in places
            ),
            element("text", mark.label, x=x - 8, y=y - 11, text_anchor="end"),
            class_="crossing",
        )

    curves = sorted(report.curves, key=lambda curve: -curve.points[-1][1])
    labels = spread([down(curve.points[-1][1]) for curve in curves])
    powers = range(found.floor, found.ceiling + 1)
    return element(
        "svg",
        *(
            tick_across(across(length), spaced(length), top=TOP, bottom=bottom)
            for length in length_ticks(found)
        ),
        *(
            tick_down(down(10.0**power), height_text(report, power), left=LEFT, right=RIGHT)
            for power in powers
        ),
        element("text", "tokens", class_="unit", x=RIGHT, y=bottom + 38, text_anchor="end"),
        element("text", height_name(report), class_="unit", x=LEFT, y=TOP - 10),
        *(line(curve, label) for curve, label in zip(curves, labels, strict=True)),
        *(drawn(mark) for mark in marks(report)),
        viewBox=f"0 0 {WIDTH} {max(bottom, *labels) + ROOM_BELOW:.0f}",
        class_="cost-chart",
        role="img",
        aria_label=f"{height_name(report)} against length; the sentences say where lines cross.",
    )


def family_class(report: CostReport, family: str) -> str:
    """The class whose colour is that of a family."""
    return "family-layer" if family == "layer" else f"family-{report.families.index(family)}"


def _line(
    report: CostReport, curve: Curve, *, places: list[tuple[float, float]], label: float
) -> Markup:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, end = places[-1]
    leader = f"M{x + 5:.1f} {end:.1f} C{x + 18:.1f} {end:.1f} {x + 12:.1f} {label:.1f} "
    leader += f"{x + 26:.1f} {label:.1f}"
    length, height = curve.points[-1]
    reached = seconds_text(height) if report.has_times else humanised(round(height))
    return element(
        "g",
        element("title", f"{curve.name}: {reached} at {length} tokens"),
        element("polyline", points=path, class_="reach"),
        element("polyline", points=path, class_="stroke"),
        element("path", d=leader, class_="leader"),
        element("circle", cx=x, cy=end, r=3),
        element("text", curve.name, x=x + 30, y=label + 4),
        class_=f"line {family_class(report, curve.family)}",
    )
