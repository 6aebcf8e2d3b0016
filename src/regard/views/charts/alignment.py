"""The picture of who read what: a panel a map, output tokens down the side, source tokens along the top.

All panels share one colour scale, from 0 to the largest weight, so that they can be compared; where
weights are negative it goes as far to either side of 0. Cells are squares, of one size in all panels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.records.attention import AlignmentRecord
from regard.core.registry import look_up
from regard.views.charts.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    text_width,
    write_figure,
)

# Where everything goes in an alignment picture, in inches, worked out before anything is drawn.
#
# Only the panels at the left and at the top are labelled, since all panels show the same tokens.


LARGEST_CELL, SMALLEST_CELL, USUAL_SIDE = 0.36, 0.16, 5.0
MOST_LABELS = 60
LONGEST_LABEL = 18
LARGEST_FONT, FONT_OF_CELL = 10.0, 0.62
NAME_SIZE, TITLE_SIZE, TITLE_LINE, MOST_TITLE_LINES = 9.0, 12.0, 0.23, 3
MARGIN, PAD, GAP = 0.2, 0.07, 0.25
NAME_ROOM, AXIS_NAME_ROOM = 0.3, 0.22
BAR_WIDTH, BAR_ROOM, SHORTEST_BAR, LONGEST_BAR = 0.13, 0.75, 1.2, 3.0
LEAST_WIDTH = 4.0
# The shape of the whole that is aimed at, width over height: that of a page lying on its side.
USUAL_ASPECT = 1.4


class Labels(NamedTuple):
    """The labels of one axis: the positions that have one, and its text."""

    positions: list[int]
    texts: list[str]


class Layout(NamedTuple):
    """Lengths in inches, measured from the left and from the top; `title` is cut into lines."""

    source: Labels
    output: Labels
    source_turns: list[int]
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
        """The left and top of a panel; panels go along the rows."""
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
    """Room for a panel a name; `columns` of them in a row, or as many as make a good shape."""
    longest = max(len(source_tokens), len(output_tokens))
    # Beyond as many tokens as there are labels, cells shrink and the panel grows no more.
    least = SMALLEST_CELL * min(1.0, MOST_LABELS / longest)
    cell = min(max(USUAL_SIDE / longest, least), LARGEST_CELL)
    font_size = min(max(cell, SMALLEST_CELL) * 72 * FONT_OF_CELL, LARGEST_FONT)

    source, output = labels(source_tokens), labels(output_tokens)
    turns = turns_of(source.texts, font_size=font_size, room=cell)
    turned = [text for text, turn in zip(source.texts, turns, strict=True) if turn]
    source_height = max(_widest(turned, font_size=font_size), font_size / 72)
    panel_width, panel_height = cell * len(source_tokens), cell * len(output_tokens)
    beside = _widest(output.texts, font_size=font_size)
    left = MARGIN + max(beside, text_width("output", font_size=NAME_SIZE)) + 2 * PAD
    column_pitch = max(panel_width, _widest(names, font_size=NAME_SIZE)) + GAP
    row_pitch = panel_height + NAME_ROOM + GAP / 2

    if columns is None:
        columns = best_columns(len(names), width=column_pitch, height=row_pitch)
    rows = math.ceil(len(names) / columns)
    bar_left = left + columns * column_pitch
    width = max(bar_left + BAR_ROOM + MARGIN, LEAST_WIDTH)
    title = wrapped(title, width=width - 2 * MARGIN)
    lines = title.count("\n") + 1 if title else 0
    top = MARGIN + lines * TITLE_LINE + PAD + AXIS_NAME_ROOM + source_height + PAD
    bar_height = min(max(rows * row_pitch - NAME_ROOM - GAP / 2, SHORTEST_BAR), LONGEST_BAR)
    return Layout(
        source=source,
        output=output,
        source_turns=turns,
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
    """A label for every token, or for every so manieth where there are too many to read."""
    step = math.ceil(len(tokens) / MOST_LABELS)
    positions = list(range(0, len(tokens), step))
    return Labels(positions, [label(tokens[position]) for position in positions])


def turns_of(texts: Sequence[str], *, font_size: float, room: float) -> list[int]:
    """By how many degrees each label along the top is turned: 0 or 90.

    Where most fit their cell, as letters do, the others alone are turned; else all are.
    """
    turns = [0 if text_width(text, font_size=font_size) <= 0.9 * room else 90 for text in texts]
    return turns if turns.count(0) > len(texts) / 2 else [90] * len(texts)


def label(token: str) -> str:
    """A token as an axis shows it: blanks are made visible, and a long one is cut.

    >>> label("a b")
    'a␣b'
    """
    text = shown(token).replace(" ", "␣")
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def best_columns(count: int, *, width: float, height: float) -> int:
    """The number of columns whose grid comes nearest to the usual shape and to being full.

    >>> best_columns(6, width=1.0, height=1.0)
    3
    """

    def strangeness(columns: int) -> float:
        rows = math.ceil(count / columns)
        shape = abs(math.log(columns * width / (rows * height) / USUAL_ASPECT))
        return shape + 2 * math.log(rows * columns / count)

    return min(range(1, count + 1), key=strangeness)


def wrapped(title: str, *, width: float) -> str:
    """The title in lines of at most `width` inches, cut short where there would be too many."""
    text = shown(" ".join(title.split()))
    if not text:
        return ""
    # Measured in the weight it is drawn in, with a little room for lines of wider letters.
    letter = 1.1 * text_width(text, font_size=TITLE_SIZE, weight="bold") / len(text)
    room = max(int(width / letter), 12)
    return "\n".join(textwrap.wrap(text, room, max_lines=MOST_TITLE_LINES, placeholder=" …"))


def _widest(texts: Sequence[str], *, font_size: float) -> float:
    return max((text_width(text, font_size=font_size) for text in texts), default=0.0)


# More cells than this would make an SVG of many megabytes; they become one image a panel.
MOST_DRAWN_CELLS = 20_000
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6
FRAME = "#d0d7de"


class Panel(NamedTuple):
    """One matrix of the picture, output × source, and the name below it."""

    name: str
    weights: Sequence[Sequence[float]]


def draw_alignment(record: AlignmentRecord, *, path: Path, heads: str = "mean") -> None:
    """Write the picture to `path`, an .svg or a .png.

    `heads` says whether a map of several heads is one panel, their "mean", or a panel for "each".
    """
    require_figure_suffix(path)
    panels = look_up("choice of heads", heads, PANELS)(record)
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
        many = f" (mean of {len(heads)} heads)" if len(heads) > 1 else ""
        panels.append(Panel(shown(f"{name}{many}"), mean))
    return panels


def _head_panels(record: AlignmentRecord) -> list[Panel]:
    return [
        Panel(shown(f"{name}, head {number}" if len(heads) > 1 else name), head)
        for name, heads in record.maps.items()
        for number, head in enumerate(heads, start=1)
    ]


PANELS = {"mean": _mean_panels, "each": _head_panels}


def _heads_in_each_map(record: AlignmentRecord) -> int | None:
    """The number of heads where several maps have the same: a row a map, a column a head."""
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
            linewidth=0.5 if layout.cell >= SMALLEST_CELL else 0.0,
            rasterized=len(weights) > MOST_DRAWN_CELLS,
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
        for text, turn in zip(axes.get_xticklabels(), layout.source_turns, strict=True):
            text.set_rotation(turn)


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
