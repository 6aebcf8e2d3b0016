"""Where everything goes in an alignment picture, in inches, worked out before anything is drawn.

Only the panels at the left and at the top are labelled, since all panels show the same tokens.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from regard.views.figure_file import shown, text_width

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
