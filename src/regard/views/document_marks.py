"""The marks of a document's picture: words in shaded boxes, bars of sentences, the legend; in inches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from regard.core.document_record import DocumentRecord
from regard.views.document_layout import Place, cut_word, word_places
from regard.views.document_shades import (
    HALF,
    LEGEND,
    MARKS,
    Piece,
    Shading,
    pieces,
    sentence_starts,
    strength,
    times_text,
)
from regard.views.figure_file import QUIET_INK, text_width

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
