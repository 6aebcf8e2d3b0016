"""Attention heatmaps as SVG: rows are queries, columns are keys.

Weights are drawn by opacity over the background of the page, so they work in light and dark mode.
Non-negative weights share the scale 0 to 1; signed weights have a symmetric scale of their own. A study
shows one heatmap per variant for the same source, all on one scale, as the mean over heads and maps.
An alignment figure has one heatmap per map, rows are output and columns source tokens, all on one scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.records.attention import AlignmentRecord
from regard.core.records.overview import MechanismRecord
from regard.core.records.study import AttentionExample, StudyRecord
from regard.core.registry import lookup
from regard.views.charts.axes import truncate
from regard.views.charts.figure_file import (
    MARGIN,
    place,
    printable,
    size_of,
    stack,
    text_block,
    validate_figure_suffix,
    write_figure,
)
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


# Target aspect ratio of the grid of panels, width over height.
ASPECT_RATIO = 1.4
MIN_WIDTH, MAX_TITLE_LINES, RAMP_CELLS = 400.0, 3, 5


class Panel(NamedTuple):
    """One attention matrix of shape (output, source), and its name."""

    name: str
    weights: Sequence[Sequence[float]]


def draw_alignment(record: AlignmentRecord, *, path: Path, heads: str = "mean") -> None:
    """Draw the alignment to `path`, an .svg or .png file.

    `heads` is "mean" for one panel per map, averaged over heads, or "each" for one panel per head.
    """
    validate_figure_suffix(path)
    panels = lookup("choice of heads", heads, PANELS)(record)
    weights = [weight for panel in panels for row in panel.weights for weight in row]
    limit = max(map(abs, weights)) or 1.0
    charts = [
        stack(
            [
                text_block(panel.name),
                alignment_map(record, panel.weights, limit=limit, name=panel.name),
            ]
        )
        for panel in panels
    ]
    grid = _grid(charts, columns=_heads_in_each_map(record) if heads == "each" else None)
    width = max(size_of(grid)[0], MIN_WIDTH) - 2 * MARGIN
    title = text_block(record.title, max_width=width, title=True, max_lines=MAX_TITLE_LINES)
    write_figure(title, _ramp_chart(limit, signed=min(weights) < NEGATIVE), grid, path=path)


def _mean_panels(record: AlignmentRecord) -> list[Panel]:
    return [
        Panel(
            f"{name} (mean of {len(heads)} heads)" if len(heads) > 1 else name, mean_weights(heads)
        )
        for name, heads in record.maps.items()
    ]


def _head_panels(record: AlignmentRecord) -> list[Panel]:
    return [
        Panel(f"{name}, head {number}" if len(heads) > 1 else name, head)
        for name, heads in record.maps.items()
        for number, head in enumerate(heads, start=1)
    ]


PANELS = {"mean": _mean_panels, "each": _head_panels}


def _heads_in_each_map(record: AlignmentRecord) -> int | None:
    """The number of heads if all maps have the same: one row per map, one column per head."""
    numbers = {len(heads) for heads in record.maps.values()}
    return numbers.pop() if len(record.maps) > 1 and len(numbers) == 1 else None


def _grid(charts: Sequence[Markup], *, columns: int | None) -> Markup:
    """Charts in row-major order, in as many columns as fit the aspect ratio if `columns` is None."""
    width, height = (max(sides) + MARGIN for sides in zip(*map(size_of, charts), strict=True))
    columns = columns or best_columns(len(charts), width=width, height=height)
    placed = [
        place(chart, x=width * (number % columns), y=height * (number // columns))
        for number, chart in enumerate(charts)
    ]
    rows = math.ceil(len(charts) / columns)
    return svg(*placed, width=width * columns, height=height * rows)


def best_columns(count: int, *, width: float, height: float) -> int:
    """The number of columns whose grid is nearest to the aspect ratio and to being full.

    >>> best_columns(6, width=1.0, height=1.0)
    3
    """

    def penalty(columns: int) -> float:
        rows = math.ceil(count / columns)
        shape = abs(math.log(columns * width / (rows * height) / ASPECT_RATIO))
        return shape + 2 * math.log(rows * columns / count)

    return min(range(1, count + 1), key=penalty)


def _ramp_chart(limit: float, *, signed: bool) -> Markup:
    """The colour scale with its limits, and what rows and columns are."""
    low = f"weight −{weight_text(limit)}" if signed else "weight 0"
    first, left = (-RAMP_CELLS if signed else 0), 100.0
    cells = [
        element(
            "rect",
            class_="negative" if part < 0 else None,
            x=left + CELL * (part - first),
            y=4,
            width=CELL,
            height=12,
            fill_opacity=opacity(part / RAMP_CELLS, limit=1.0),
        )
        for part in range(first, RAMP_CELLS + 1)
    ]
    right = left + CELL * len(cells) + 6
    return svg(
        element("text", low, x=left - 6, y=14, text_anchor="end"),
        element("rect", class_="ground", x=left, y=4, width=CELL * len(cells), height=12),
        element("g", *cells, class_="cells"),
        element("text", weight_text(limit), x=right, y=14),
        element("text", "columns: source, rows: output", x=right + 60, y=14),
        width=right + 230,
        height=24.0,
        class_="attention-map",
    )
