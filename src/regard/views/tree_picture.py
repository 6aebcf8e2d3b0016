"""The picture of a tree over a text: words along the bottom, joins above, coloured by what each node says.

The stronger the colour the surer the class, from even odds to certainty. Beside a join stands its
reconstruction error. Letters of the words are as large in a long text as in a short one; the picture grows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from regard.core.tree_record import TreeRecord
from regard.views.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    text_width,
    write_figure,
)

# Inches.
MARGIN, WORD_GAP, LEAST_WORD, LEVEL, LOWEST_JOIN, TITLE_HEIGHT, LEGEND = (
    *(0.3, 0.16, 0.34, 0.34, 0.3),
    *(0.4, 0.3),
)
LEAST_WIDTH, LONGEST_TITLE = 3.2, 90
WORD_SIZE, ERROR_SIZE, TITLE_SIZE = 10.0, 6.5, 11.0
# Square points.
WORD_DOT, JOIN_DOT = 26.0, 46.0
LINE = "#d0d7de"
# One a class, as far as they go; then from the first again.
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a", "#0a7b83")


class Place(NamedTuple):
    """Where a node stands, in inches from the left and from the bottom of the tree."""

    across: float
    up: float


def draw_tree(record: TreeRecord, *, path: Path) -> None:
    """Write the picture to `path`, an .svg or a .png."""
    require_figure_suffix(path)
    with figure_settings():
        write_figure(_figure(record), path=path)


def colours(record: TreeRecord) -> dict[str, str]:
    """The colour of each class that is said somewhere, by name in the order of the alphabet."""
    names = sorted(set(record.said))
    return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}


def strength(sure: float, *, classes: int) -> float:
    """How strongly a node is coloured: 1 where the class is certain, little where it is a guess."""
    guess = 1 / max(2, classes)
    return 0.15 + 0.85 * max(0.0, sure - guess) / (1 - guess)


def places(record: TreeRecord) -> list[Place]:
    """A word is as far from the next as its letters need; a join stands midway between its children."""
    found: list[Place] = []
    left = 0.0
    for word in record.leaves:
        room = max(LEAST_WORD, text_width(shown(word), font_size=WORD_SIZE)) + WORD_GAP
        found.append(Place(left + room / 2, 0.0))
        left += room
    for (one, other), level in zip(record.joins, record.levels[len(found) :], strict=True):
        across = (found[one].across + found[other].across) / 2
        found.append(Place(across, LOWEST_JOIN + LEVEL * (level - 1)))
    return found


def _figure(record: TreeRecord) -> Any:
    at, words = places(record), len(record.leaves)
    last = max(LEAST_WORD, text_width(shown(record.leaves[-1]), font_size=WORD_SIZE)) / 2
    tree_width = at[words - 1].across + last + WORD_GAP
    tree_height = max(place.up for place in at) + LEVEL
    width = max(tree_width, LEAST_WIDTH) + 2 * MARGIN
    height = tree_height + 2 * MARGIN + TITLE_HEIGHT + LEGEND + LEVEL
    sheet = Sheet(width=width, height=height)
    axes = sheet.axes(MARGIN, MARGIN + TITLE_HEIGHT, tree_width, tree_height + LEVEL)
    axes.set(xlim=(0, tree_width), ylim=(-LEVEL, tree_height))
    axes.axis("off")
    _draw_lines(axes, record, at)
    _draw_nodes(axes, record, at)
    title = shown(record.title)
    title = title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"
    sheet.text(MARGIN, MARGIN, title, size=TITLE_SIZE, weight="bold", va="top")
    _draw_legend(sheet, record, top=height - MARGIN)
    return sheet.figure


def _draw_lines(axes: Any, record: TreeRecord, at: list[Place]) -> None:
    from matplotlib.collections import LineCollection

    # Up from the child, then across: levels stay readable however deep the tree.
    lines = [
        [at[child], Place(at[child].across, at[number].up), at[number]]
        for number, children in enumerate(record.joins, start=len(record.leaves))
        for child in children
    ]
    axes.add_collection(LineCollection(lines, colors=LINE, linewidths=1.2, zorder=1))


def _draw_nodes(axes: Any, record: TreeRecord, at: list[Place]) -> None:
    of_class, words = colours(record), len(record.leaves)
    across, up = zip(*at, strict=True)
    sizes = [WORD_DOT] * words + [JOIN_DOT] * len(record.joins)
    painted = [of_class[name] for name in record.said]
    faded = [strength(share, classes=len(of_class)) for share in record.sure]
    axes.scatter(across, up, s=sizes, color="white", zorder=2)
    axes.scatter(across, up, s=sizes, color=painted, alpha=faded, linewidth=0, zorder=3)
    for place, word in zip(at, record.leaves, strict=False):
        axes.text(place.across, -0.1, shown(word), size=WORD_SIZE, ha="center", va="top")
    for place, error in zip(at[words:], record.errors, strict=True):
        looks = {"size": ERROR_SIZE, "color": QUIET_INK, "ha": "left", "va": "bottom"}
        axes.text(place.across + 0.06, place.up + 0.03, f"{error:.2f}", **looks)


def _draw_legend(sheet: Sheet, record: TreeRecord, *, top: float) -> None:
    left = MARGIN
    for name, colour in colours(record).items():
        text = f"● {shown(name)}"
        sheet.text(left, top, text, size=ERROR_SIZE + 2, color=colour, va="bottom")
        left += text_width(text, font_size=ERROR_SIZE + 2) + 2 * WORD_GAP
    sheet.text(
        left,
        top,
        "numbers: reconstruction error",
        size=ERROR_SIZE + 2,
        color=QUIET_INK,
        va="bottom",
    )
