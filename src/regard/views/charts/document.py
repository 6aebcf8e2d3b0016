"""The picture of a document in a file: its words in lines, shaded by weight, with the deletion test below.

The page (`document_picture.py`) shows the same record for reading on a screen; this is for a paper or a
slide. Beside the lines of a sentence stands a bar as long as the sentence's weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.records.document import DocumentRecord
from regard.core.registry import look_up
from regard.views.charts.deletion import (
    FILE_WIDTH as WIDTH,
    LINE as TEXT_LINE,
    MARGIN,
    TEXT_SIZE,
    add_deletion,
    deletion_height,
    deletion_lines,
)
from regard.views.charts.document_words import (
    HALF,
    LEGEND,
    MARKS,
    Piece,
    Place,
    Shading,
    cut_sentence,
    cut_word,
    left_out_sentence,
    pieces,
    said_of_label,
    sentence_starts,
    shadings,
    short_title,
    strength,
    times_text,
    word_places,
    wrapped_lines,
)
from regard.views.charts.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    text_width,
    write_figure,
)

# The marks of a document's picture: words in shaded boxes, bars of sentences, the legend; in
# inches.


MOST_WORDS = 400
# Points for letters, else inches.
WORD_SIZE, LINE, BOX_HEIGHT, INSIDE, SPACE = 10.0, 0.27, 0.215, 0.035, 0.035
BAR_ROOM, BAR_LENGTH, LEGEND_SIZE = 0.95, 0.5, 9.0
SHADE, SENTENCE, LINE_COLOUR = "#f59a23", "#2463b4", "#d0d7de"


class Written(NamedTuple):
    """The words that are drawn, and where; the same in every block."""

    pieces: list[Piece]
    places: list[Place]
    starts: list[int]
    left: float

    @property
    def height(self) -> float:
        """Of all lines."""
        return LINE * (self.places[-1].line + 1)


def written(record: DocumentRecord, *, left: float, right: float) -> Written:
    """The first words of a document, set between two edges."""
    drawn = [Piece(cut_word(piece.text), piece.joins) for piece in pieces(record.tokens)]
    drawn = drawn[:MOST_WORDS]
    widths = {piece.text: text_width(piece.text, font_size=WORD_SIZE) for piece in drawn}
    starts = [start for start in sentence_starts(record) if start < len(drawn)]
    left += BAR_ROOM if record.sentences is not None else 0.0
    places = word_places(
        [widths[piece.text] + 2 * INSIDE for piece in drawn],
        joins=[piece.joins for piece in drawn],
        starts=set(starts),
        room=right - left,
        space=SPACE,
    )
    return Written(drawn, places, starts, left)


def draw_words(
    axes: Any, record: DocumentRecord, way: Shading, text: Written, *, top: float
) -> None:
    """The words of one block from `top` on, and the bars beside them where sentences are weighed."""
    for token, piece, place, times in zip(
        record.tokens, text.pieces, text.places, way.times, strict=False
    ):
        left, line_top = text.left + place.left, top + LINE * place.line
        _draw_box(axes, left, line_top, place.width, times=times)
        axes.text(
            left + INSIDE,
            line_top + BOX_HEIGHT / 2,
            piece.text,
            size=WORD_SIZE,
            va="center_baseline",
            style="italic" if token in MARKS else "normal",
        )
    if record.sentences is None:
        return
    ends = [*text.starts, len(text.places)]
    for start, end in pairwise(ends):
        first, last = text.places[start].line, text.places[end - 1].line
        weight = record.sentences[record.segments[start]]
        above, right = top + LINE * first, text.left - 0.1
        axes.plot([right, right], [above, top + LINE * last + BOX_HEIGHT], color=LINE_COLOUR, lw=1)
        length = BAR_LENGTH * weight
        _rectangle(axes, right - length, above + 0.05, length, BOX_HEIGHT - 0.1, SENTENCE)
        axes.text(
            right - length - 0.04,
            above + BOX_HEIGHT / 2,
            f"{weight:.2f}",
            size=8,
            color=QUIET_INK,
            ha="right",
            va="center",
        )


def draw_legend(axes: Any, record: DocumentRecord, *, left: float, top: float) -> None:
    """What the shades stand for, in two lines."""
    start = left
    for times in LEGEND:
        text = times_text(times)
        width = text_width(text, font_size=LEGEND_SIZE) + 2 * INSIDE
        _draw_box(axes, left, top, width, times=times)
        axes.text(left + INSIDE, top + BOX_HEIGHT / 2, text, size=LEGEND_SIZE, va="center_baseline")
        left += width + 2 * SPACE
    words = {"size": LEGEND_SIZE, "color": QUIET_INK, "va": "center_baseline"}
    axes.text(
        left + SPACE, top + BOX_HEIGHT / 2, "the even weight, that of all tokens alike;", **words
    )
    bars = "" if record.sentences is None else "; bar at the left: weight of the sentence"
    second = f"a shade is times / (times + {HALF:g}){bars}"
    axes.text(start, top + LINE + BOX_HEIGHT / 2, second, **words)


def _draw_box(axes: Any, left: float, top: float, width: float, *, times: float) -> None:
    _rectangle(axes, left, top, width, BOX_HEIGHT, _mixed(strength(times)))


def _rectangle(
    axes: Any, left: float, top: float, width: float, height: float, colour: str
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((left, top), width, height, facecolor=colour, linewidth=0))


def _mixed(share: float) -> str:
    """White with so much of the shade in it."""
    parts = (int(SHADE[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)


MOST_BLOCKS = 12
# Points for letters, else inches.
HEAD_SIZE, HEAD_LINE, BLOCK_GAP = 11.0, 0.24, 0.2


def draw_document(record: DocumentRecord, *, path: Path, hops: str = "mean") -> None:
    """Write the picture to `path`, an .svg or a .png.

    `hops` says whether the text stands there once, with the weights of all hops as one number, their
    "mean", or once more for "each".
    """
    require_figure_suffix(path)
    ways = look_up("choice of hops", hops, WAYS)(shadings(record))
    with figure_settings():
        write_figure(_figure(record, ways), path=path)


WAYS = {"mean": lambda ways: ways[:1], "each": lambda ways: ways}


def _figure(record: DocumentRecord, ways: Sequence[Shading]) -> Any:
    room = WIDTH - 2 * MARGIN
    text = written(record, left=MARGIN, right=WIDTH - MARGIN)
    blocks = ways[:MOST_BLOCKS]
    said = f"{shown(record.label)}, {said_of_label(record)}"
    heading = wrapped_lines(said, room=room, font_size=HEAD_SIZE, weight="bold")
    missing = [left_out_sentence(record, drawn=len(text.places)), cut_sentence(record)]
    if len(blocks) < len(ways):
        missing.append(f"{len(ways) - len(blocks)} more hops are not drawn.")
    below = wrapped_lines(" ".join(missing), room=room, font_size=TEXT_SIZE)
    told = [] if record.deletion is None else deletion_lines(record.deletion, room=room)
    named = len(ways) > 1
    block = text.height + BLOCK_GAP + (TEXT_LINE if named else 0.0)

    title_top = MARGIN + HEAD_LINE * len(heading)
    top = title_top + TEXT_LINE + 0.12
    below_top = top + block * len(blocks)
    legend_top = below_top + TEXT_LINE * len(below) + (0.08 if below else 0.0)
    told_top = legend_top + 0.62
    chart_top = told_top + TEXT_LINE * len(told)
    height = chart_top + (deletion_height() if record.deletion else 0.0)

    sheet = Sheet(width=WIDTH, height=height)
    axes = sheet.axes(0.0, 0.0, WIDTH, height)
    axes.set_xlim(0.0, WIDTH)
    axes.set_ylim(height, 0.0)
    axes.axis("off")
    for number, line in enumerate(heading):
        sheet.text(
            MARGIN, MARGIN + HEAD_LINE * number, line, size=HEAD_SIZE, weight="bold", va="top"
        )
    quiet = {"size": TEXT_SIZE, "color": QUIET_INK, "va": "top"}
    sheet.text(MARGIN, title_top, _one_line(short_title(record), room=room), **quiet)
    for number, way in enumerate(blocks):
        start = top + block * number
        if named:
            sheet.text(MARGIN, start, way.name, size=TEXT_SIZE, weight="bold", va="top")
            start += TEXT_LINE
        draw_words(axes, record, way, text, top=start)
    for number, line in enumerate(below):
        sheet.text(MARGIN, below_top + TEXT_LINE * number, line, **quiet)
    draw_legend(axes, record, left=MARGIN, top=legend_top)
    for number, line in enumerate(told):
        sheet.text(MARGIN, told_top + TEXT_LINE * number, line, size=TEXT_SIZE, va="top")
    if record.deletion is not None:
        add_deletion(sheet, record.deletion, top=chart_top)
    return sheet.figure


def _one_line(title: str, *, room: float) -> str:
    """The title, cut where it would not fit."""
    text = title
    while text and text_width(f"{text}…", font_size=TEXT_SIZE) > room:
        text = text[: -max(1, len(text) // 8)]
    return text if text == title else f"{text}…"
