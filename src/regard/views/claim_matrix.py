"""The matrix of a claim's picture, for a page: cells shaded by size, with their numbers where these fit.

Shade is opacity over the page's own ground, so one drawing serves a light and a dark page; numbers below 0
have a colour of their own. The largest number has the full shade.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from regard.core.claim_record import MatrixPicture
from regard.views.claim_words import number_text
from regard.views.markup import Markup, element

WIDTH = 520.0
LETTER, FONT_SIZE = 6.7, 11.0
LONGEST_LABEL = 22
WIDEST_CELL, HIGHEST_CELL, LEAST_CELL = 62.0, 26.0, 3.0
# Cells at least this large hold their number.
NUMBER_WIDTH, NUMBER_HEIGHT = 44.0, 18.0
# As in the maps of weights: small numbers should be seen too.
GAMMA = 0.5
# Under a number the shade is weaker, so that it can be read.
FULL, FULL_UNDER_NUMBER = 1.0, 0.5
MOST_LABELS = 40
TALLEST = 520.0


class Layout(NamedTuple):
    """Where the cells begin and how large they are."""

    left: float
    top: float
    width: float
    height: float
    upright: bool

    @property
    def has_numbers(self) -> bool:
        return self.width >= NUMBER_WIDTH and self.height >= NUMBER_HEIGHT


def matrix_chart(picture: MatrixPicture) -> Markup:
    """The drawing; nothing where there is no cell."""
    rows, columns = len(picture.values), max(map(len, picture.values), default=0)
    if not columns:
        return Markup("")
    layout = layout_of(picture)
    limit = largest(picture)
    right, bottom = layout.left + columns * layout.width, layout.top + rows * layout.height
    cells = [
        _cell(picture, value, row=row, column=column, layout=layout, limit=limit)
        for row, values in enumerate(picture.values)
        for column, value in enumerate(values)
    ]
    return element(
        "svg",
        element(
            "rect",
            class_="ground",
            x=layout.left,
            y=layout.top,
            width=right - layout.left,
            height=bottom - layout.top,
        ),
        *_row_labels(picture, layout),
        *_column_labels(picture, layout),
        element("g", *cells, class_="cells"),
        viewBox=f"0 0 {right + 2:.0f} {bottom + 2:.0f}",
        class_="claim-matrix",
        style=f"max-width:{right + 2:.0f}px",
        role="img",
        aria_label=f"{picture.title}: {rows} rows, {columns} columns; largest {number_text(limit)}.",
    )


def largest(picture: MatrixPicture) -> float:
    """The size of the number that has the full shade."""
    sizes = [abs(value) for row in picture.values for value in row if math.isfinite(value)]
    return max(sizes, default=0.0)


def layout_of(picture: MatrixPicture) -> Layout:
    """Room for the labels first, then for cells as large as there is place for."""
    rows, columns = len(picture.values), max(map(len, picture.values))
    left = _room(picture.row_labels)
    width = min(max((WIDTH - left) / columns, LEAST_CELL), WIDEST_CELL)
    height = min(max(min(width, TALLEST / rows), LEAST_CELL), HIGHEST_CELL)
    upright = _room(picture.column_labels) > width
    top = _room(picture.column_labels) if upright else FONT_SIZE + 8 if picture.column_labels else 2
    return Layout(left, top, width, height, upright)


def shortened(label: str) -> str:
    """A label as it stands beside a row or column."""
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _room(labels: Sequence[str]) -> float:
    return LETTER * max((len(shortened(label)) for label in labels), default=0) + 8.0


def _cell(
    picture: MatrixPicture,
    value: float,
    *,
    row: int,
    column: int,
    layout: Layout,
    limit: float,
) -> Markup:
    x, y = layout.left + column * layout.width, layout.top + row * layout.height
    named = [
        labels[place]
        for labels, place in ((picture.row_labels, row), (picture.column_labels, column))
        if place < len(labels)
    ]
    title = f"{' → '.join(named)}: {number_text(value)}" if named else number_text(value)
    full = FULL_UNDER_NUMBER if layout.has_numbers else FULL
    share = abs(value) / limit if limit and math.isfinite(value) else 0.0
    parts = [
        element("title", title),
        element(
            "rect",
            class_="negative" if value < 0 else None,
            x=x,
            y=y,
            width=layout.width - min(1.0, layout.width / 8),
            height=layout.height - min(1.0, layout.height / 8),
            fill_opacity=full * share**GAMMA,
        ),
    ]
    if layout.has_numbers:
        parts.append(
            element(
                "text",
                number_text(value, digits=2),
                x=x + layout.width / 2,
                y=y + layout.height / 2 + FONT_SIZE / 3,
                text_anchor="middle",
            )
        )
    return element("g", *parts)


def _row_labels(picture: MatrixPicture, layout: Layout) -> list[Markup]:
    return [
        element(
            "text",
            shortened(label),
            x=layout.left - 6,
            y=layout.top + layout.height * (place + 0.5) + FONT_SIZE / 3,
            text_anchor="end",
        )
        for place, label in _some(picture.row_labels)
    ]


def _column_labels(picture: MatrixPicture, layout: Layout) -> list[Markup]:
    found = []
    for place, label in _some(picture.column_labels):
        middle = layout.left + layout.width * (place + 0.5)
        if layout.upright:
            turned = f"translate({middle + FONT_SIZE / 3:.1f} {layout.top - 5:.1f}) rotate(-90)"
            found.append(element("text", shortened(label), transform=turned))
        else:
            found.append(
                element("text", shortened(label), x=middle, y=layout.top - 6, text_anchor="middle")
            )
    return found


def _some(labels: Sequence[str]) -> list[tuple[int, str]]:
    """All labels with their places, or as many as can be read."""
    step = math.ceil(len(labels) / MOST_LABELS) or 1
    return list(enumerate(labels))[::step]
