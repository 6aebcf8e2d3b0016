"""Weights as a heat map in SVG: a row is a token that reads, a column a token that is read.

Colour is opacity over the page's own ground, so one drawing serves a light and a dark page. Weights
that cannot be negative share one scale from 0 to 1; signed ones have their own, the same on both
sides of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.records import MechanismRecord
from regard.views.markup import Markup, element, joined
from regard.views.numbers import weight_text

CELL = 20
GAP = 1
LETTER = 6.1
FONT_SIZE = 10.5
LONGEST_LABEL = 12
# Weights of one over the length should be visible too: opacity is the square root of the weight.
GAMMA = 0.5


def heatmap(record: MechanismRecord, *, tokens: Sequence[str]) -> Markup:
    """The drawing. Every cell says in its title who reads whom and how much."""
    labels = [shortened(token) for token in tokens]
    margin = LETTER * max(len(label) for label in labels) + 8.0
    side = margin + CELL * len(tokens) + 1
    limit = scale_limit(record)
    cells = [
        _cell(weight, row=row, column=column, margin=margin, limit=limit, tokens=tokens)
        for row, weights in enumerate(record.weights)
        for column, weight in enumerate(weights)
    ]
    return element(
        "svg",
        *_axes(labels, margin=margin),
        element("g", *cells, class_="cells"),
        element("rect", class_="pair", width=CELL, height=CELL, x=-2 * CELL, y=0),
        viewBox=f"0 0 {side:.0f} {side:.0f}",
        class_="heatmap",
        role="img",
        tabindex="0",
        data_columns=len(tokens),
        aria_label=_described(record, tokens),
    )


def scale_limit(record: MechanismRecord) -> float:
    """The weight that is drawn in full colour."""
    largest = max((abs(weight) for row in record.weights for weight in row), default=0.0)
    return (largest or 1.0) if record.signed else max(1.0, largest)


def opacity(weight: float, *, limit: float) -> float:
    """How strongly a weight is drawn, from 0 to 1."""
    return float(min(abs(weight) / limit, 1.0) ** GAMMA)


def shortened(token: str) -> str:
    """A token as an axis shows it."""
    return token if len(token) <= LONGEST_LABEL else f"{token[: LONGEST_LABEL - 1]}…"


def legend(record: MechanismRecord) -> Markup:
    """The colours beside the numbers they stand for."""
    limit = weight_text(scale_limit(record))
    low = f"−{limit}" if record.signed else "0"
    return element(
        "span",
        low,
        element("span", class_="ramp signed" if record.signed else "ramp", aria_hidden="true"),
        limit,
        class_="legend",
    )


def _cell(
    weight: float, *, row: int, column: int, margin: float, limit: float, tokens: Sequence[str]
) -> Markup:
    title = f"{tokens[row]} → {tokens[column]}: {weight_text(weight)}"
    return element(
        "rect",
        element("title", title),
        class_="negative" if weight < 0 else None,
        x=margin + CELL * column,
        y=margin + CELL * row,
        width=CELL - GAP,
        height=CELL - GAP,
        fill_opacity=opacity(weight, limit=limit),
    )


def _axes(labels: Sequence[str], *, margin: float) -> list[Markup]:
    side = CELL * len(labels) - GAP
    ground = element("rect", class_="ground", x=margin, y=margin, width=side, height=side)
    middle = [margin + CELL * index + CELL / 2 for index in range(len(labels))]
    rows = [
        element("text", label, x=margin - 5, y=place + FONT_SIZE / 3, text_anchor="end")
        for label, place in zip(labels, middle, strict=True)
    ]
    columns = [
        element(
            "text",
            label,
            transform=f"translate({place + FONT_SIZE / 3:.1f} {margin - 5:.1f}) rotate(-90)",
        )
        for label, place in zip(labels, middle, strict=True)
    ]
    return [
        ground,
        element("g", joined(*rows), class_="axis rows", aria_hidden="true"),
        element("g", joined(*columns), class_="axis columns", aria_hidden="true"),
    ]


def _described(record: MechanismRecord, tokens: Sequence[str]) -> str:
    weight, row, column = max(
        (weight, row, column)
        for row, weights in enumerate(record.weights)
        for column, weight in enumerate(weights)
    )
    return (
        f"Heat map of the weights of {record.name}, {len(tokens)} words reading each other. "
        f"Largest: {tokens[row]} reads {tokens[column]}, {weight_text(weight)}."
    )
