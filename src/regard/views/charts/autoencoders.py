"""Figures of autoencoders: the tree of a recursive one, the singular values of a regularised linear one.

Tree: words along the bottom, merges above, coloured by the predicted class with an opacity that follows
its probability; each merge is labelled with its reconstruction error. The width grows with the text.

Singular values: fitted values of the encoder by penalty as points, over the theoretical √max(0, 1 − λ/s)
for each eigenvalue s of the data covariance (Kunin et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord
from regard.views.charts.axes import truncate
from regard.views.charts.figure_file import (
    GRID,
    QUIET_INK,
    Sheet,
    figure_settings,
    printable,
    text_width,
    validate_figure_suffix,
    write_figure,
)

# Inches.
MARGIN, WORD_GAP, MIN_WORD_WIDTH, LEVEL_HEIGHT = 0.3, 0.16, 0.34, 0.34
FIRST_LEVEL, TITLE_HEIGHT, LEGEND_HEIGHT = 0.3, 0.4, 0.3
MIN_WIDTH, MAX_TITLE_LENGTH = 3.2, 90
WORD_SIZE, ERROR_SIZE, TITLE_SIZE = 10.0, 6.5, 11.0
# Square points.
WORD_DOT, MERGE_DOT = 26.0, 46.0
LINE = "#d0d7de"
# One per class, repeated if there are more classes.
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a", "#0a7b83")


class NodePosition(NamedTuple):
    """Position of a node in inches, from the left and from the bottom of the tree."""

    x: float
    y: float


def draw_tree(record: TreeRecord, *, path: Path) -> None:
    """Draw the tree to `path`, an .svg or .png file."""
    validate_figure_suffix(path)
    with figure_settings():
        write_figure(_tree_figure(record), path=path)


def colours(record: TreeRecord) -> dict[str, str]:
    """The colour of each predicted class, in alphabetical order."""
    names = sorted(set(record.predictions))
    return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}


def node_opacity(confidence: float, *, classes: int) -> float:
    """Opacity of a node: 1 at certainty, 0.15 at chance level."""
    chance = 1 / max(2, classes)
    return 0.15 + 0.85 * max(0.0, confidence - chance) / (1 - chance)


def node_positions(record: TreeRecord) -> list[NodePosition]:
    """Words are spaced by their width; a merge is midway between its children."""
    found: list[NodePosition] = []
    left = 0.0
    for word in record.leaves:
        width = max(MIN_WORD_WIDTH, text_width(printable(word), font_size=WORD_SIZE)) + WORD_GAP
        found.append(NodePosition(left + width / 2, 0.0))
        left += width
    for (one, other), level in zip(record.merges, record.levels[len(found) :], strict=True):
        x = (found[one].x + found[other].x) / 2
        found.append(NodePosition(x, FIRST_LEVEL + LEVEL_HEIGHT * (level - 1)))
    return found


def _tree_figure(record: TreeRecord) -> Any:
    positions, words = node_positions(record), len(record.leaves)
    last = max(MIN_WORD_WIDTH, text_width(printable(record.leaves[-1]), font_size=WORD_SIZE)) / 2
    tree_width = positions[words - 1].x + last + WORD_GAP
    tree_height = max(position.y for position in positions) + LEVEL_HEIGHT
    width = max(tree_width, MIN_WIDTH) + 2 * MARGIN
    height = tree_height + 2 * MARGIN + TITLE_HEIGHT + LEGEND_HEIGHT + LEVEL_HEIGHT
    sheet = Sheet(width=width, height=height)
    axes = sheet.axes(MARGIN, MARGIN + TITLE_HEIGHT, tree_width, tree_height + LEVEL_HEIGHT)
    axes.set(xlim=(0, tree_width), ylim=(-LEVEL_HEIGHT, tree_height))
    axes.axis("off")
    _draw_edges(axes, record, positions)
    _draw_nodes(axes, record, positions)
    title = truncate(printable(record.title), MAX_TITLE_LENGTH)
    sheet.text(MARGIN, MARGIN, title, size=TITLE_SIZE, weight="bold", va="top")
    _draw_legend(sheet, record, top=height - MARGIN)
    return sheet.figure


def _draw_edges(axes: Any, record: TreeRecord, at: list[NodePosition]) -> None:
    from matplotlib.collections import LineCollection

    # Vertical from the child, then horizontal, so that levels stay readable in deep trees.
    lines = [
        [at[child], NodePosition(at[child].x, at[number].y), at[number]]
        for number, children in enumerate(record.merges, start=len(record.leaves))
        for child in children
    ]
    axes.add_collection(LineCollection(lines, colors=LINE, linewidths=1.2, zorder=1))


def _draw_nodes(axes: Any, record: TreeRecord, at: list[NodePosition]) -> None:
    of_class, words = colours(record), len(record.leaves)
    x, y = zip(*at, strict=True)
    sizes = [WORD_DOT] * words + [MERGE_DOT] * len(record.merges)
    node_colours = [of_class[name] for name in record.predictions]
    opacities = [node_opacity(value, classes=len(of_class)) for value in record.confidences]
    axes.scatter(x, y, s=sizes, color="white", zorder=2)
    axes.scatter(x, y, s=sizes, color=node_colours, alpha=opacities, linewidth=0, zorder=3)
    for position, word in zip(at, record.leaves, strict=False):
        axes.text(position.x, -0.1, printable(word), size=WORD_SIZE, ha="center", va="top")
    for position, error in zip(at[words:], record.errors, strict=True):
        text_kwargs = {"size": ERROR_SIZE, "color": QUIET_INK, "ha": "left", "va": "bottom"}
        axes.text(position.x + 0.06, position.y + 0.03, f"{error:.2f}", **text_kwargs)


def _draw_legend(sheet: Sheet, record: TreeRecord, *, top: float) -> None:
    left = MARGIN
    for name, colour in colours(record).items():
        text = f"● {printable(name)}"
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


# Inches.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 7.2, 3.8, 0.75, 1.05, 0.5, 0.6
LINE_POINTS = 400


def draw_singular_values(
    *,
    penalties: Sequence[float],
    singular_values: Sequence[Sequence[float]],
    eigenvalues: Sequence[float],
    path: Path,
) -> None:
    """Draw singular values against penalties to `path`, an .svg or .png file.

    `singular_values` has one row per penalty with one value per eigenvalue. Penalties are on a
    logarithmic scale and must be positive.
    """
    validate_figure_suffix(path)
    if not penalties or any(not 0 < penalty < math.inf for penalty in penalties):
        raise RegardError(
            f"penalties={list(penalties)} cannot be drawn on a logarithmic scale. "
            "Pass one or more, all finite and above 0."
        )
    lengths = [len(row) for row in singular_values]
    if lengths != [len(eigenvalues)] * len(penalties):
        raise RegardError(
            f"There are {len(penalties)} penalties and {len(eigenvalues)} eigenvalues, but rows of "
            f"{lengths} singular values. Pass one row per penalty with one value per eigenvalue."
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
        # Includes the exact zero of the curve.
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
    # The default labels of a logarithmic axis are math text, which is disabled.
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
