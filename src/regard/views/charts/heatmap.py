"""Attention heatmaps as SVG: rows are queries, columns are keys.

Weights are drawn by opacity over the background of the page, so they work in light and dark mode.
Non-negative weights share the scale 0 to 1; signed weights have a symmetric scale of their own. A study
shows one heatmap per variant for the same source, all on one scale, as the mean over heads and maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.core.records.attention import AlignmentRecord
from regard.core.records.overview import MechanismRecord
from regard.core.records.study import AttentionExample, StudyRecord
from regard.views.charts.axes import truncate
from regard.views.charts.figure_file import printable
from regard.views.charts.variants import ranked, variant_label
from regard.views.pages.html import Markup, element, svg
from regard.views.text.numbers import weight_text

CELL = 20.0
GAP = 1.0
CHAR_WIDTH = 6.1
FONT_SIZE = 10.5
MAX_LABEL_LENGTH = 12
# Opacity is the square root of the weight, so that uniform weights remain visible.
GAMMA = 0.5


class Cells(NamedTuple):
    """Positions of the cells of a heatmap, of this size with the gap between them."""

    left: float
    top: float
    width: float = CELL
    height: float = CELL

    def ground(self, *, rows: int, columns: int) -> Markup:
        """The background of all cells."""
        width, height = self.width * columns - GAP, self.height * rows - GAP
        return element("rect", class_="ground", x=self.left, y=self.top, width=width, height=height)

    def cell(self, row: int, column: int, weight: float, title: str, *, shade: float) -> Markup:
        """One cell, of opacity `shade`."""
        return element(
            "rect",
            element("title", title),
            class_="negative" if weight < 0 else None,
            x=self.left + self.width * column,
            y=self.top + self.height * row,
            width=self.width - min(GAP, self.width / 8),
            height=self.height - min(GAP, self.height / 8),
            fill_opacity=shade,
        )

    def row_labels(self, labels: Sequence[str]) -> list[Markup]:
        """Labels at the left; empty ones are omitted."""
        x, first = self.left - 5, self.top + self.height / 2 + FONT_SIZE / 3
        return [
            element("text", label, x=x, y=first + self.height * number, text_anchor="end")
            for number, label in enumerate(labels)
            if label
        ]

    def column_labels(self, labels: Sequence[str], *, upright: bool) -> list[Markup]:
        """Labels above; with `upright`, those that fit their column are not rotated."""
        found = []
        for number, label in enumerate(labels):
            middle, bottom = self.left + self.width * (number + 0.5), self.top - 5
            if upright and label and CHAR_WIDTH * len(label) < self.width:
                found.append(element("text", label, x=middle, y=bottom, text_anchor="middle"))
            elif label:
                rotated = f"translate({middle + FONT_SIZE / 3:.1f} {bottom:.1f}) rotate(-90)"
                found.append(element("text", label, transform=rotated))
        return found


def heatmap(record: MechanismRecord, *, tokens: Sequence[str]) -> Markup:
    """Heatmap of one mechanism; the title of a cell names query, key and weight."""
    labels = [truncate(token, MAX_LABEL_LENGTH) for token in tokens]
    margin = CHAR_WIDTH * max(len(label) for label in labels) + 8.0
    cells, limit, side = Cells(margin, margin), scale_limit(record), margin + CELL * len(tokens) + 1
    drawn = [
        cells.cell(
            row,
            column,
            weight,
            f"{tokens[row]} → {tokens[column]}: {weight_text(weight)}",
            shade=opacity(weight, limit=limit),
        )
        for row, weights in enumerate(record.weights)
        for column, weight in enumerate(weights)
    ]
    rows, columns = cells.row_labels(labels), cells.column_labels(labels, upright=False)
    return svg(
        cells.ground(rows=len(tokens), columns=len(tokens)),
        element("g", *rows, class_="axis rows", aria_hidden="true"),
        element("g", *columns, class_="axis columns", aria_hidden="true"),
        element("g", *drawn, class_="cells"),
        element("rect", class_="pair", width=CELL, height=CELL, x=-2 * CELL, y=0),
        width=side,
        height=side,
        class_="heatmap",
        tabindex="0",
        data_columns=len(tokens),
        aria_label=_description(record, tokens),
    )


def scale_limit(record: MechanismRecord) -> float:
    """The weight drawn at full opacity."""
    largest = max((abs(weight) for row in record.weights for weight in row), default=0.0)
    return (largest or 1.0) if record.signed else max(1.0, largest)


def opacity(weight: float, *, limit: float) -> float:
    """Opacity of a weight, from 0 to 1."""
    return float(min(abs(weight) / limit, 1.0) ** GAMMA)


def legend(record: MechanismRecord) -> Markup:
    """The colour scale with its limits."""
    return colour_scale(weight_text(scale_limit(record)), signed=record.signed)


def colour_scale(limit: str, *, signed: bool, tag: str = "span") -> Markup:
    """A colour ramp from 0, or with `signed` from the negative limit, to the limit."""
    ramp = element("span", class_="ramp signed" if signed else "ramp", aria_hidden="true")
    return element(tag, f"−{limit}" if signed else "0", ramp, limit, class_="legend")


def _description(record: MechanismRecord, tokens: Sequence[str]) -> str:
    weight, row, column = max(
        (weight, row, column)
        for row, weights in enumerate(record.weights)
        for column, weight in enumerate(weights)
    )
    return (
        f"Heatmap of the attention weights of {record.name} over {len(tokens)} tokens. "
        f"Largest: {tokens[row]} to {tokens[column]}, {weight_text(weight)}."
    )


# Cells below this fraction of the limit are not drawn, which keeps pages with long sentences small.
MIN_WEIGHT = 0.004
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6


def attention_columns(record: StudyRecord, example: AttentionExample) -> Markup:
    """One heatmap per variant for the same source, best variant first."""
    names = [variant.name for variant in ranked(record) if variant.name in example.alignments]
    means = {
        name: mean_weights(
            [head for heads in example.alignments[name].maps.values() for head in heads]
        )
        for name in names
    }
    weights = [weight for rows in means.values() for row in rows for weight in row]
    largest = max(map(abs, weights), default=0.0)
    signed = min(weights, default=0.0) < NEGATIVE
    limit = (largest or 1.0) if signed else max(1.0, largest)
    columns = [
        element(
            "figure",
            element("figcaption", variant_label(record, name)),
            alignment_map(example.alignments[name], means[name], limit=limit, name=name),
            _mean_note(example.alignments[name]),
        )
        for name in names
    ]
    scale = colour_scale(weight_text(limit), signed=signed)
    widest = max((len(example.alignments[name].source_tokens) for name in names), default=1)
    return element(
        "div",
        element("p", "columns: source tokens, rows: output tokens; weight ", scale, class_="hint"),
        element("div", *columns, class_="attention", style=f"--tokens:{widest}"),
    )


def mean_weights(heads: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Mean over heads, of shape (output, source)."""
    return [
        [sum(weights) / len(heads) for weights in zip(*rows, strict=True)]
        for rows in zip(*heads, strict=True)
    ]


def _mean_note(record: AlignmentRecord) -> Markup:
    # The maps may already be means over heads.
    if sum(map(len, record.maps.values())) == 1 and "mean" not in next(iter(record.maps)):
        return Markup("")
    return element("small", "mean over heads and layers")


def token_label(token: str) -> str:
    """A token as a label: spaces are made visible, a long token is truncated.

    >>> token_label("a b")
    'a␣b'
    """
    return truncate(printable(token).replace(" ", "␣"), MAX_LABEL_LENGTH)


def alignment_map(
    record: AlignmentRecord, weights: Sequence[Sequence[float]], *, limit: float, name: str
) -> Markup:
    """Heatmap of one attention matrix over the tokens of a record."""
    sources = [token_label(token) for token in record.source_tokens]
    outputs = [token_label(token) for token in record.output_tokens]
    left, top = (CHAR_WIDTH * max(2, *map(len, labels)) + 8.0 for labels in (outputs, sources))
    cells, width = Cells(left, top), left + CELL * len(sources)
    drawn = [
        cells.cell(
            row,
            column,
            weight,
            f"{output} ← {source}: {weight_text(weight)}",
            shade=opacity(weight, limit=limit),
        )
        for row, output in enumerate(record.output_tokens)
        for column, source in enumerate(record.source_tokens)
        if abs(weight := weights[row][column]) >= MIN_WEIGHT * limit
    ]
    labels = [*cells.row_labels(outputs), *cells.column_labels(sources, upright=True)]
    return svg(
        cells.ground(rows=len(outputs), columns=len(sources)),
        element("g", *drawn, class_="cells"),
        element("g", *labels, aria_hidden="true"),
        width=width,
        height=top + CELL * len(outputs),
        class_="attention-map",
        style=f"max-width:{1.25 * (width - GAP):.0f}px",
        aria_label=f"Attention of {name} over {' '.join(record.source_tokens)} "
        f"while generating {' '.join(record.output_tokens)}",
    )
