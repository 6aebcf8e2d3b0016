"""What each arm read of one and the same source, side by side: a heat map an arm, one scale for all.

A map of several heads, or several maps, are drawn as their mean. Colour is opacity over the page's own
ground, as in `heatmap.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.alignment_record import AlignmentRecord
from regard.core.study_record import SharedPicture, StudyRecord
from regard.views.heatmap import CELL, FONT_SIZE, GAP, LETTER, opacity, shortened
from regard.views.markup import Markup, element
from regard.views.numbers import weight_text
from regard.views.study_arms import arm_label, ranked

# A cell that would be invisible is not drawn: pages of long sentences stay small.
FAINTEST = 0.004
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6


def attention_columns(record: StudyRecord, picture: SharedPicture) -> Markup:
    """A column an arm, the best first."""
    names = [arm.name for arm in ranked(record) if arm.name in picture.alignments]
    means = {name: mean_weights(picture.alignments[name]) for name in names}
    weights = [weight for rows in means.values() for row in rows for weight in row]
    largest = max(map(abs, weights), default=0.0)
    signed = min(weights, default=0.0) < NEGATIVE
    limit = (largest or 1.0) if signed else max(1.0, largest)
    columns = [
        element(
            "figure",
            element("figcaption", arm_label(record, name)),
            _drawing(picture.alignments[name], means[name], limit=limit, arm=name),
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
    record: AlignmentRecord, weights: Sequence[Sequence[float]], *, limit: float, arm: str
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
        aria_label=f"What {arm} read of {' '.join(record.source_tokens)} "
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
