"""The tree of a recursive autoencoder as a figure.

Words are along the bottom, merges above, coloured by the predicted class with an opacity that follows its
probability; each merge is labelled with its reconstruction error. The width grows with the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from regard.core.formatting import printable, score_text, truncate
from regard.core.records.attention import TreeRecord
from regard.views.charts.figure_file import write_figure
from regard.views.charts.plot import TONES
from regard.views.charts.svg import MARGIN, TEXT_SIZE, element, path_of, svg, text_block, text_width

WORD_GAP, MIN_WORD_WIDTH, LEVEL_HEIGHT, WORD_RADIUS, MERGE_RADIUS = 12.0, 32.0, 34.0, 4.0, 5.5
MAX_TITLE_LENGTH = 90


class NodePosition(NamedTuple):
    """Position of a node, from the left and from the bottom of the tree."""

    x: float
    y: float


def draw_tree(record: TreeRecord, *, path: Path) -> None:
    """Draw the tree to `path`, an .svg or .png file."""
    title = text_block(truncate(printable(record.title), MAX_TITLE_LENGTH), title=True)
    note = text_block("numbers: reconstruction error")
    write_figure(title, tree_chart(record), note, path=path)


def class_numbers(record: TreeRecord) -> dict[str, int]:
    """The number of the colour of each predicted class, in alphabetical order."""
    return {name: number % TONES for number, name in enumerate(sorted(set(record.predictions)))}


def node_opacity(confidence: float, *, classes: int) -> float:
    """Opacity of a node: 1 at certainty, 0.15 at chance level."""
    chance = 1 / max(2, classes)
    return 0.15 + 0.85 * max(0.0, confidence - chance) / (1 - chance)


def node_positions(record: TreeRecord) -> list[NodePosition]:
    """Words are spaced by their width; a merge is midway between its children."""
    found: list[NodePosition] = []
    left = MARGIN
    for word in record.leaves:
        width = max(MIN_WORD_WIDTH, text_width(printable(word), font_size=TEXT_SIZE)) + WORD_GAP
        found.append(NodePosition(left + width / 2, 0.0))
        left += width
    for (one, other), level in zip(record.merges, record.levels[len(found) :], strict=True):
        found.append(NodePosition((found[one].x + found[other].x) / 2, LEVEL_HEIGHT * level))
    return found


def tree_chart(record: TreeRecord) -> Markup:
    """The tree above its words, with the classes below."""
    at, words, numbers = node_positions(record), len(record.leaves), class_numbers(record)
    bottom = max(position.y for position in at) + LEVEL_HEIGHT
    at = [NodePosition(x, bottom - y) for x, y in at]
    parts = []
    for (x, y), children in zip(at[words:], record.merges, strict=True):
        for child in children:
            # Vertical from the child, then horizontal, so that levels stay readable in deep trees.
            corner = at[child]._replace(y=y)
            points = path_of([at[child], corner, (x, y)])
            parts.append(element("polyline", class_="edge", points=points))
    for number, ((x, y), name) in enumerate(zip(at, record.predictions, strict=True)):
        shape = {"cx": x, "cy": y, "r": WORD_RADIUS if number < words else MERGE_RADIUS}
        opacity = node_opacity(record.confidences[number], classes=len(numbers))
        colour = f"node tone-{numbers[name]}"
        parts.append(element("circle", class_="ground", **shape))
        parts.append(element("circle", class_=colour, fill_opacity=opacity, **shape))
    for (x, _), word in zip(at, record.leaves, strict=False):
        parts.append(element("text", printable(word), x=x, y=bottom + 20, text_anchor="middle"))
    for (x, y), error in zip(at[words:], record.errors, strict=True):
        parts.append(
            element("text", score_text(error, decimals=2), class_="error", x=x + 6, y=y - 5)
        )
    left = MARGIN
    for name, number in numbers.items():
        text = f"● {printable(name)}"
        parts.append(element("text", text, class_=f"class tone-{number}", x=left, y=bottom + 50))
        left += text_width(text, font_size=TEXT_SIZE) + 2 * WORD_GAP
    width = max(left, 2 * at[words - 1].x - (at[words - 2].x if words > 1 else 0)) + MARGIN
    return svg(*parts, width=width, height=bottom + 58, class_="tree")
