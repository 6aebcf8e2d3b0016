"""Attention alignment figures: one heatmap panel per map, rows are output and columns source tokens.

All panels share one colour scale, from 0 to the largest weight, or symmetric around 0 where weights are
negative. The layout is computed in inches before drawing; only the left and top panels have labels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.records.attention import AlignmentRecord
from regard.core.registry import lookup
from regard.views.charts.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    printable,
    text_width,
    validate_figure_suffix,
    write_figure,
)

MAX_CELL, MIN_CELL, PANEL_SIDE = 0.36, 0.16, 5.0
MAX_LABELS = 60
MAX_LABEL_LENGTH = 18
MAX_FONT_SIZE, FONT_TO_CELL = 10.0, 0.62
NAME_SIZE, TITLE_SIZE, TITLE_LINE, MAX_TITLE_LINES = 9.0, 12.0, 0.23, 3
MARGIN, PAD, GAP = 0.2, 0.07, 0.25
NAME_HEIGHT, AXIS_NAME_HEIGHT = 0.3, 0.22
BAR_WIDTH, BAR_SPACE, MIN_BAR, MAX_BAR = 0.13, 0.75, 1.2, 3.0
MIN_WIDTH = 4.0
# Target aspect ratio of the grid of panels, width over height.
ASPECT_RATIO = 1.4


class Labels(NamedTuple):
    """Tick labels of one axis and their token positions."""

    positions: list[int]
    texts: list[str]


class Layout(NamedTuple):
    """Sizes in inches, measured from the left and from the top; `title` is wrapped."""

    source: Labels
    output: Labels
    source_rotations: list[int]
    source_height: float
    title: str
    columns: int
    cell: float
    font_size: float
    left: float
    top: float
    panel_width: float
    panel_height: float
    column_pitch: float
    row_pitch: float
    bar_left: float
    bar_height: float
    width: float
    height: float

    def corner(self, number: int) -> tuple[float, float]:
        """Left and top of a panel; panels are in row-major order."""
        row, column = divmod(number, self.columns)
        return self.left + column * self.column_pitch, self.top + row * self.row_pitch


def layout_of(
    *,
    source_tokens: Sequence[str],
    output_tokens: Sequence[str],
    names: Sequence[str],
    title: str,
    columns: int | None,
) -> Layout:
    """Layout of one panel per name in `columns` columns, or as many as fit the aspect ratio best."""
    longest = max(len(source_tokens), len(output_tokens))
    # With more tokens than labels, cells shrink and the panel grows no further.
    smallest = MIN_CELL * min(1.0, MAX_LABELS / longest)
    cell = min(max(PANEL_SIDE / longest, smallest), MAX_CELL)
    font_size = min(max(cell, MIN_CELL) * 72 * FONT_TO_CELL, MAX_FONT_SIZE)

    source, output = labels(source_tokens), labels(output_tokens)
    rotations = label_rotations(source.texts, font_size=font_size, width=cell)
    rotated = [text for text, angle in zip(source.texts, rotations, strict=True) if angle]
    source_height = max(_max_width(rotated, font_size=font_size), font_size / 72)
    panel_width, panel_height = cell * len(source_tokens), cell * len(output_tokens)
    beside = _max_width(output.texts, font_size=font_size)
    left = MARGIN + max(beside, text_width("output", font_size=NAME_SIZE)) + 2 * PAD
    column_pitch = max(panel_width, _max_width(names, font_size=NAME_SIZE)) + GAP
    row_pitch = panel_height + NAME_HEIGHT + GAP / 2

    if columns is None:
        columns = best_columns(len(names), width=column_pitch, height=row_pitch)
    rows = math.ceil(len(names) / columns)
    bar_left = left + columns * column_pitch
    width = max(bar_left + BAR_SPACE + MARGIN, MIN_WIDTH)
    title = wrap_title(title, width=width - 2 * MARGIN)
    lines = title.count("\n") + 1 if title else 0
    top = MARGIN + lines * TITLE_LINE + PAD + AXIS_NAME_HEIGHT + source_height + PAD
    bar_height = min(max(rows * row_pitch - NAME_HEIGHT - GAP / 2, MIN_BAR), MAX_BAR)
    return Layout(
        source=source,
        output=output,
        source_rotations=rotations,
        source_height=source_height,
        title=title,
        columns=columns,
        cell=cell,
        font_size=font_size,
        left=left,
        top=top,
        panel_width=panel_width,
        panel_height=panel_height,
        column_pitch=column_pitch,
        row_pitch=row_pitch,
        bar_left=bar_left,
        bar_height=bar_height,
        width=width,
        height=top + max(rows * row_pitch, bar_height) + MARGIN,
    )


def labels(tokens: Sequence[str]) -> Labels:
    """A label for every token, or for every n-th with more than `MAX_LABELS` tokens."""
    step = math.ceil(len(tokens) / MAX_LABELS)
    positions = list(range(0, len(tokens), step))
    return Labels(positions, [label(tokens[position]) for position in positions])


def label_rotations(texts: Sequence[str], *, font_size: float, width: float) -> list[int]:
    """Rotation of each column label, 0 or 90 degrees.

    If most labels fit their column, only the others are rotated; else all are.
    """
    angles = [0 if text_width(text, font_size=font_size) <= 0.9 * width else 90 for text in texts]
    return angles if angles.count(0) > len(texts) / 2 else [90] * len(texts)


def label(token: str) -> str:
    """A token as a tick label: spaces are made visible, a long token is truncated.

    >>> label("a b")
    'a␣b'
    """
    text = printable(token).replace(" ", "␣")
    return text if len(text) <= MAX_LABEL_LENGTH else f"{text[: MAX_LABEL_LENGTH - 1]}…"


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


def wrap_title(title: str, *, width: float) -> str:
    """The title in lines of at most `width` inches, truncated after `MAX_TITLE_LINES`."""
    text = printable(" ".join(title.split()))
    if not text:
        return ""
    # Mean character width in bold, with a margin for wider lines.
    char_width = 1.1 * text_width(text, font_size=TITLE_SIZE, weight="bold") / len(text)
    columns = max(int(width / char_width), 12)
    return "\n".join(textwrap.wrap(text, columns, max_lines=MAX_TITLE_LINES, placeholder=" …"))


def _max_width(texts: Sequence[str], *, font_size: float) -> float:
    return max((text_width(text, font_size=font_size) for text in texts), default=0.0)


# With more cells, panels are rasterised; an SVG would have many megabytes.
MAX_VECTOR_CELLS = 20_000
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6
FRAME = "#d0d7de"


class Panel(NamedTuple):
    """One attention matrix of shape (output, source), and the name below it."""

    name: str
    weights: Sequence[Sequence[float]]


def draw_alignment(record: AlignmentRecord, *, path: Path, heads: str = "mean") -> None:
    """Draw the alignment to `path`, an .svg or .png file.

    `heads` is "mean" for one panel per map, averaged over heads, or "each" for one panel per head.
    """
    validate_figure_suffix(path)
    panels = lookup("choice of heads", heads, PANELS)(record)
    with figure_settings():
        layout = layout_of(
            source_tokens=record.source_tokens,
            output_tokens=record.output_tokens,
            names=[panel.name for panel in panels],
            title=record.title,
            columns=_heads_in_each_map(record) if heads == "each" else None,
        )
        write_figure(_figure(panels, layout), path=path)


def _mean_panels(record: AlignmentRecord) -> list[Panel]:
    panels = []
    for name, heads in record.maps.items():
        mean = [
            [sum(weights) / len(heads) for weights in zip(*rows, strict=True)]
            for rows in zip(*heads, strict=True)
        ]
        suffix = f" (mean of {len(heads)} heads)" if len(heads) > 1 else ""
        panels.append(Panel(printable(f"{name}{suffix}"), mean))
    return panels


def _head_panels(record: AlignmentRecord) -> list[Panel]:
    return [
        Panel(printable(f"{name}, head {number}" if len(heads) > 1 else name), head)
        for name, heads in record.maps.items()
        for number, head in enumerate(heads, start=1)
    ]


PANELS = {"mean": _mean_panels, "each": _head_panels}


def _heads_in_each_map(record: AlignmentRecord) -> int | None:
    """The number of heads if all maps have the same: one row per map, one column per head."""
    numbers = {len(heads) for heads in record.maps.values()}
    return numbers.pop() if len(record.maps) > 1 and len(numbers) == 1 else None


def _figure(panels: Sequence[Panel], layout: Layout) -> Any:
    sheet = Sheet(width=layout.width, height=layout.height)
    weights = [weight for panel in panels for row in panel.weights for weight in row]
    colours = _colours(weights)
    for number, panel in enumerate(panels):
        left, top = layout.corner(number)
        axes = sheet.axes(left, top, layout.panel_width, layout.panel_height)
        axes.pcolormesh(
            panel.weights,
            norm=colours.norm,
            cmap=colours.cmap,
            edgecolors="white",
            linewidth=0.5 if layout.cell >= MIN_CELL else 0.0,
            rasterized=len(weights) > MAX_VECTOR_CELLS,
        )
        axes.invert_yaxis()
        _label(
            axes, layout, top_row=number < layout.columns, left_column=number % layout.columns == 0
        )
        below = top + layout.panel_height + PAD
        sheet.text(left, below, panel.name, size=NAME_SIZE, va="top")

    sheet.text(
        MARGIN, MARGIN, layout.title, size=TITLE_SIZE, weight="bold", va="top", linespacing=1.3
    )
    above = layout.top - layout.source_height - 2 * PAD
    sheet.text(layout.left, above, "source", size=NAME_SIZE, color=QUIET_INK)
    left = layout.left - 2 * PAD
    sheet.text(left, layout.top - PAD, "output", size=NAME_SIZE, color=QUIET_INK, ha="right")
    _draw_bar(sheet, layout, colours)
    return sheet.figure


def _colours(weights: Sequence[float]) -> Any:
    """The colour scale that all panels share."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    limit = max(map(abs, weights)) or 1.0
    if min(weights) < NEGATIVE:
        return ScalarMappable(norm=Normalize(-limit, limit), cmap="RdBu")
    return ScalarMappable(norm=Normalize(0.0, limit), cmap="Blues")


def _label(axes: Any, layout: Layout, *, top_row: bool, left_column: bool) -> None:
    axes.spines[:].set(color=FRAME, linewidth=0.8)
    axes.tick_params(length=0, pad=PAD * 72 / 2, labelsize=layout.font_size)
    axes.tick_params(labeltop=True, labelbottom=False)
    source, output = layout.source, layout.output
    axes.set_xticks(_middles(source) if top_row else [], source.texts if top_row else [])
    axes.set_yticks(_middles(output) if left_column else [], output.texts if left_column else [])
    if top_row:
        for text, angle in zip(axes.get_xticklabels(), layout.source_rotations, strict=True):
            text.set_rotation(angle)


def _middles(labels: Labels) -> list[float]:
    return [position + 0.5 for position in labels.positions]


def _draw_bar(sheet: Sheet, layout: Layout, colours: Any) -> None:
    left = layout.bar_left
    bar = sheet.figure.colorbar(
        colours, cax=sheet.axes(left, layout.top, BAR_WIDTH, layout.bar_height)
    )
    bar.outline.set(edgecolor=FRAME, linewidth=0.8)
    bar.ax.tick_params(length=2, labelsize=8)
    sheet.text(left, layout.top - 1.5 * PAD, "weight", size=NAME_SIZE, color=QUIET_INK)
