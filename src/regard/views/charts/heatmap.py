"""Weights as a heat map in SVG: a row is a token that reads, a column a token that is read.

Colour is opacity over the page's own ground, so one drawing serves a light and a dark page. Weights
that cannot be negative share one scale from 0 to 1; signed ones have their own, the same on both
sides of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.records.attention import AlignmentRecord
from regard.core.records.overview import MechanismRecord
from regard.core.records.study import SharedPicture, StudyRecord
from regard.views.charts.variants import ranked, variant_label
from regard.views.pages.html import Markup, element, joined
from regard.views.text.numbers import weight_text

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


# What each variant read of one and the same source, side by side: a heat map a variant, one scale for all.
#
# A map of several heads, or several maps, are drawn as their mean. Colour is opacity over the
# page's own ground, as in `heatmap.py`.


# A cell that would be invisible is not drawn: pages of long sentences stay small.
FAINTEST = 0.004
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6


def attention_columns(record: StudyRecord, picture: SharedPicture) -> Markup:
    """A column a variant, the best first."""
    names = [variant.name for variant in ranked(record) if variant.name in picture.alignments]
    means = {name: mean_weights(picture.alignments[name]) for name in names}
    weights = [weight for rows in means.values() for row in rows for weight in row]
    largest = max(map(abs, weights), default=0.0)
    signed = min(weights, default=0.0) < NEGATIVE
    limit = (largest or 1.0) if signed else max(1.0, largest)
    columns = [
        element(
            "figure",
            element("figcaption", variant_label(record, name)),
            _drawing(picture.alignments[name], means[name], limit=limit, variant=name),
            _of_what(picture.alignments[name]),
        )
        for name in names
    ]
    written = weight_text(limit)
    ramp = element("span", class_="ramp signed" if signed else "ramp", aria_hidden="true")
    legend = element("span", f"−{written}" if signed else "0", ramp, written, class_="legend")
    widest = max((len(picture.alignments[name].source_tokens) for name in names), default=1)
    return element(
        "div",
        element("p", "source along the top, output down the side; weight ", legend, class_="hint"),
        element("div", *columns, class_="attention", style=f"--tokens:{widest}"),
    )


def mean_weights(record: AlignmentRecord) -> list[list[float]]:
    """The mean over all heads of all maps, output × source."""
    heads = [head for heads in record.maps.values() for head in heads]
    return [
        [sum(weights) / len(heads) for weights in zip(*rows, strict=True)]
        for rows in zip(*heads, strict=True)
    ]


def _of_what(record: AlignmentRecord) -> Markup:
    # Heads may have been averaged before, so that they cannot be counted here.
    if sum(map(len, record.maps.values())) == 1 and "mean" not in next(iter(record.maps)):
        return Markup("")
    return element("small", "mean over heads and layers")


def _drawing(
    record: AlignmentRecord, weights: Sequence[Sequence[float]], *, limit: float, variant: str
) -> Markup:
    sources = [shortened(token) for token in record.source_tokens]
    outputs = [shortened(token) for token in record.output_tokens]
    left, top = (LETTER * max(2, *map(len, labels)) + 8.0 for labels in (outputs, sources))
    width, height = CELL * len(sources) - GAP, CELL * len(outputs) - GAP
    cells = [
        element(
            "rect",
            element("title", f"{output} ← {source}: {weight_text(weight)}"),
            class_="negative" if weight < 0 else None,
            x=left + CELL * column,
            y=top + CELL * row,
            width=CELL - GAP,
            height=CELL - GAP,
            fill_opacity=opacity(weight, limit=limit),
        )
        for row, output in enumerate(record.output_tokens)
        for column, source in enumerate(record.source_tokens)
        if abs(weight := weights[row][column]) >= FAINTEST
    ]
    down = [
        element("text", label, x=left - 5, y=top + _middle(row), text_anchor="end")
        for row, label in enumerate(outputs)
    ]
    along = [_above(label, left + CELL * column, top - 5) for column, label in enumerate(sources)]
    return element(
        "svg",
        element("rect", class_="ground", x=left, y=top, width=width, height=height),
        element("g", *cells, class_="cells"),
        element("g", *down, *along, aria_hidden="true"),
        viewBox=f"0 0 {left + width + 1:.0f} {top + height + 1:.0f}",
        style=f"max-width:{1.25 * (left + width):.0f}px",
        class_="reading",
        role="img",
        aria_label=f"What {variant} read of {' '.join(record.source_tokens)} "
        f"while it wrote {' '.join(record.output_tokens)}",
    )


def _above(label: str, left: float, bottom: float) -> Markup:
    """A label over its column, turned where it is too wide for it."""
    middle = left + CELL / 2
    if LETTER * len(label) < CELL:
        return element("text", label, x=middle, y=bottom, text_anchor="middle")
    turned = f"translate({middle + FONT_SIZE / 3:.1f} {bottom:.1f}) rotate(-90)"
    return element("text", label, transform=turned)


def _middle(place: int) -> float:
    return CELL * place + CELL / 2 + FONT_SIZE / 3
