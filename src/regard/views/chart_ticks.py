"""Ticks of a chart: a faint line across the field, and its number beside the axis."""

from __future__ import annotations

from regard.views.markup import Markup, element, joined


def tick_across(place: float, text: str, *, top: float, bottom: float) -> Markup:
    """At a place of the horizontal axis."""
    return joined(
        element("line", class_="grid", x1=place, x2=place, y1=top, y2=bottom),
        element("text", text, class_="tick", x=place, y=bottom + 18, text_anchor="middle"),
    )


def tick_down(place: float, text: str, *, left: float, right: float) -> Markup:
    """At a place of the vertical axis."""
    return joined(
        element("line", class_="grid", x1=left, x2=right, y1=place, y2=place),
        element("text", text, class_="tick", x=left - 8, y=place + 4, text_anchor="end"),
    )
