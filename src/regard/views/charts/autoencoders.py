"""The picture of a tree over a text: words along the bottom, joins above, coloured by what each node says.

The stronger the colour the surer the class, from even odds to certainty. Beside a join stands its
reconstruction error. Letters of the words are as large in a long text as in a short one; the picture grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord
from regard.views.charts.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    text_width,
    write_figure,
)
from regard.views.pages.html import Markup, element

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


# A tree over a text as text: in brackets, and as an HTML list inside lists, which opens and closes.
#
# ((very good) film)
#
# The list needs no script and no drawing, so it can be read aloud and searched; every node says its
# class, how sure it is, and how badly its children are told from it.


# Lists are open down to this depth at first.
OPEN_LEVELS = 3


def tree_brackets(record: TreeRecord) -> str:
    """The tree on one line: a bracket around every join.

    A bracket that is a word is told from one of the tree by a backslash before it.
    """
    texts = [_escaped(leaf) for leaf in record.leaves]
    for left, right in record.joins:
        texts.append(f"({texts[left]} {texts[right]})")
    return texts[-1]


def tree_html(record: TreeRecord) -> Markup:
    """The tree from its root down. A join is a summary that opens on its two children."""
    words, depths = len(record.leaves), _depths(record)
    # From the leaves up, so that a deep tree needs no deep recursion.
    items: list[Markup] = [
        element("li", leaf, _note(record, node), class_="leaf")
        for node, leaf in enumerate(record.leaves)
    ]
    for node, (left, right) in enumerate(record.joins, start=words):
        inside = element("ul", items[left], items[right])
        summary = element("summary", record.phrase(node), _note(record, node))
        opened = element("details", summary, inside, open=depths[node] < OPEN_LEVELS)
        items.append(element("li", opened, class_="join"))
    return element("ul", items[-1], class_="tree", aria_label=f"Tree of: {record.title}")


def _depths(record: TreeRecord) -> list[int]:
    """How far below the root each node is."""
    depths = [0] * record.num_nodes
    for node in range(record.num_nodes - 1, len(record.leaves) - 1, -1):
        for child in record.joins[node - len(record.leaves)]:
            depths[child] = depths[node] + 1
    return depths


def _note(record: TreeRecord, node: int) -> Markup:
    note = f" {record.said[node]} {record.sure[node]:.0%}"
    if node >= len(record.leaves):
        note += f", error {record.errors[node - len(record.leaves)]:.2f}"
    return element("small", note)


def _escaped(leaf: str) -> str:
    return leaf.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


# The picture of what a penalty does to a linear autoencoder: singular values of the encoder, by
# penalty.
#
# Points are what was fitted; the line behind them is √max(0, 1 − λ/s), which follows from an
# eigenvalue s of the data alone (Kunin et al. 2019). A line meets the ground where the penalty
# reaches its eigenvalue.


# Inches.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 7.2, 3.8, 0.75, 1.05, 0.5, 0.6
GRID = "#eaeef2"
LINE_POINTS = 400


def draw_singular_values(
    *,
    penalties: Sequence[float],
    singular_values: Sequence[Sequence[float]],
    eigenvalues: Sequence[float],
    path: Path,
) -> None:
    """Write the picture to `path`, an .svg or a .png.

    `singular_values` has a row for each penalty and in it a value for each eigenvalue. Penalties are
    drawn on a logarithmic scale, so they must be above 0.
    """
    require_figure_suffix(path)
    if not penalties or any(not 0 < penalty < math.inf for penalty in penalties):
        raise RegardError(
            f"The penalties {list(penalties)} cannot be drawn on a logarithmic scale. "
            "Give one or more, all finite and above 0."
        )
    lengths = [len(row) for row in singular_values]
    if lengths != [len(eigenvalues)] * len(penalties):
        raise RegardError(
            f"There are {len(penalties)} penalties and {len(eigenvalues)} eigenvalues, but rows of "
            f"{lengths} singular values. Give a row for each penalty, and in it a value for each "
            "eigenvalue."
        )
    with figure_settings():
        write_figure(_singular_values_figure(penalties, singular_values, eigenvalues), path=path)


def _singular_values_figure(
    penalties: Sequence[float],
    singular_values: Sequence[Sequence[float]],
    eigenvalues: Sequence[float],
) -> Any:
    from matplotlib import colormaps
    from matplotlib.ticker import FuncFormatter, NullFormatter

    sheet = Sheet(width=WIDTH, height=HEIGHT)
    axes = sheet.axes(LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)
    axes.set_xscale("log")
    low, high = math.log(min(penalties)), math.log(max(penalties))
    between = [math.exp(low + (high - low) * at / LINE_POINTS) for at in range(LINE_POINTS + 1)]
    for number, eigenvalue in enumerate(eigenvalues):
        colour = colormaps["viridis"](0.85 * number / max(1, len(eigenvalues) - 1))
        # The point where it meets the ground is on the line, however steep the last part is.
        grid = sorted([*between, *([eigenvalue] if between[0] < eigenvalue < between[-1] else [])])
        line = [_expected(penalty, eigenvalue) for penalty in grid]
        axes.plot(grid, line, color=colour, lw=1.6)
        fitted = [row[number] for row in singular_values]
        axes.plot(
            penalties, fitted, ls="", marker="o", ms=3.5, color=colour, label=f"{eigenvalue:.3g}"
        )
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(-0.03, 1.05)
    # The usual labels of such a scale are formulas, which figures of ours do not read.
    axes.xaxis.set_major_formatter(FuncFormatter(lambda penalty, _: f"{penalty:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("penalty λ")
    axes.legend(
        title="eigenvalue", frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=8
    )
    sheet.text(LEFT, TOP - 0.15, "singular values of the encoder", size=11, weight="bold")
    return sheet.figure


def _expected(penalty: float, eigenvalue: float) -> float:
    return math.sqrt(1 - penalty / eigenvalue) if eigenvalue > penalty else 0.0
