"""Attention alignment figures: one heatmap per map, rows are output and columns source tokens.

All heatmaps share one colour scale, from 0 to the largest weight, or symmetric around 0 where weights are
negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.records.attention import AlignmentRecord
from regard.core.registry import lookup
from regard.views.charts.figure_file import (
    MARGIN,
    place,
    size_of,
    stack,
    text_block,
    validate_figure_suffix,
    write_figure,
)
from regard.views.charts.heatmap import CELL, NEGATIVE, alignment_map, mean_weights, opacity
from regard.views.pages.html import Markup, element, svg
from regard.views.text.numbers import weight_text

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
    write_figure(title, _legend(limit, signed=min(weights) < NEGATIVE), grid, path=path)


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


def _legend(limit: float, *, signed: bool) -> Markup:
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
