"""Document figures: words shaded by attention weight, with the deletion test below.

A figure file for papers and slides; `pages/document.py` shows the same record as a page. A bar beside each
sentence is proportional to its weight. Sizes are in inches, font sizes in points.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.records.document import DocumentRecord
from regard.core.registry import lookup
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
    HALF_SHADE,
    LEGEND,
    MARKERS,
    DisplayToken,
    WeightView,
    WordPosition,
    display_tokens,
    layout_words,
    omission_note,
    prediction_sentence,
    relative_text,
    sentence_starts,
    shade_opacity,
    short_title,
    truncate_word,
    truncation_note,
    weight_views,
    wrap_text,
)
from regard.views.charts.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    printable,
    text_width,
    validate_figure_suffix,
    write_figure,
)

MAX_WORDS = 400
WORD_SIZE, LINE, BOX_HEIGHT, INSIDE, SPACE = 10.0, 0.27, 0.215, 0.035, 0.035
BAR_SPACE, BAR_LENGTH, LEGEND_SIZE = 0.95, 0.5, 9.0
SHADE, SENTENCE, LINE_COLOUR = "#f59a23", "#2463b4", "#d0d7de"


class WordLayout(NamedTuple):
    """Words that are drawn and their positions, the same in every block."""

    tokens: list[DisplayToken]
    positions: list[WordPosition]
    starts: list[int]
    left: float

    @property
    def height(self) -> float:
        """Height of all lines."""
        return LINE * (self.positions[-1].line + 1)


def layout_document(record: DocumentRecord, *, left: float, right: float) -> WordLayout:
    """Lay out the first words of a document between two edges."""
    drawn = [
        DisplayToken(truncate_word(piece.text), piece.continues_word)
        for piece in display_tokens(record.tokens)[:MAX_WORDS]
    ]
    widths = {piece.text: text_width(piece.text, font_size=WORD_SIZE) for piece in drawn}
    starts = [start for start in sentence_starts(record) if start < len(drawn)]
    left += BAR_SPACE if record.sentence_weights is not None else 0.0
    positions = layout_words(
        [widths[piece.text] + 2 * INSIDE for piece in drawn],
        continues_word=[piece.continues_word for piece in drawn],
        starts=set(starts),
        max_width=right - left,
        space=SPACE,
    )
    return WordLayout(drawn, positions, starts, left)


def draw_words(
    axes: Any, record: DocumentRecord, view: WeightView, text: WordLayout, *, top: float
) -> None:
    """Draw one block of shaded words from `top`, with the bars of sentence weights."""
    for token, piece, position, relative in zip(
        record.tokens, text.tokens, text.positions, view.relative, strict=False
    ):
        left, line_top = text.left + position.left, top + LINE * position.line
        _draw_box(axes, left, line_top, position.width, relative=relative)
        axes.text(
            left + INSIDE,
            line_top + BOX_HEIGHT / 2,
            piece.text,
            size=WORD_SIZE,
            va="center_baseline",
            style="italic" if token in MARKERS else "normal",
        )
    if record.sentence_weights is None:
        return
    ends = [*text.starts, len(text.positions)]
    for start, end in pairwise(ends):
        first, last = text.positions[start].line, text.positions[end - 1].line
        weight = record.sentence_weights[record.segments[start]]
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
    """Draw the legend of the shades."""
    start = left
    for relative in LEGEND:
        text = relative_text(relative)
        width = text_width(text, font_size=LEGEND_SIZE) + 2 * INSIDE
        _draw_box(axes, left, top, width, relative=relative)
        axes.text(left + INSIDE, top + BOX_HEIGHT / 2, text, size=LEGEND_SIZE, va="center_baseline")
        left += width + 2 * SPACE
    text_kwargs = {"size": LEGEND_SIZE, "color": QUIET_INK, "va": "center_baseline"}
    axes.text(left + SPACE, top + BOX_HEIGHT / 2, "of the uniform weight;", **text_kwargs)
    bars = "" if record.sentence_weights is None else "; bars at the left: sentence weights"
    second = f"opacity is relative weight / (relative weight + {HALF_SHADE:g}){bars}"
    axes.text(start, top + LINE + BOX_HEIGHT / 2, second, **text_kwargs)


def _draw_box(axes: Any, left: float, top: float, width: float, *, relative: float) -> None:
    _rectangle(axes, left, top, width, BOX_HEIGHT, _blend(shade_opacity(relative)))


def _rectangle(
    axes: Any, left: float, top: float, width: float, height: float, colour: str
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((left, top), width, height, facecolor=colour, linewidth=0))


def _blend(opacity: float) -> str:
    """The shade at an opacity, over white."""
    parts = (int(SHADE[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * opacity):02x}" for part in parts)


MAX_BLOCKS = 12
HEAD_SIZE, HEAD_LINE, BLOCK_GAP = 11.0, 0.24, 0.2


def draw_document(record: DocumentRecord, *, path: Path, hops: str = "mean") -> None:
    """Draw the document to `path`, an .svg or .png file.

    `hops` is "mean" for the text shaded by the mean over hops, or "each" for one more copy per hop.
    """
    validate_figure_suffix(path)
    views = lookup("choice of hops", hops, VIEW_CHOICES)(weight_views(record))
    with figure_settings():
        write_figure(_figure(record, views), path=path)


VIEW_CHOICES = {"mean": lambda views: views[:1], "each": lambda views: views}


def _figure(record: DocumentRecord, views: Sequence[WeightView]) -> Any:
    max_width = WIDTH - 2 * MARGIN
    text = layout_document(record, left=MARGIN, right=WIDTH - MARGIN)
    blocks = views[:MAX_BLOCKS]
    prediction = f"{printable(record.label)}, {prediction_sentence(record)}"
    heading = wrap_text(prediction, max_width=max_width, font_size=HEAD_SIZE, weight="bold")
    notes = [omission_note(record, drawn=len(text.positions)), truncation_note(record)]
    if len(blocks) < len(views):
        notes.append(f"{len(views) - len(blocks)} more hops are not drawn.")
    below = wrap_text(" ".join(notes), max_width=max_width, font_size=TEXT_SIZE)
    deletion = (
        [] if record.deletion is None else deletion_lines(record.deletion, max_width=max_width)
    )
    named = len(views) > 1
    block = text.height + BLOCK_GAP + (TEXT_LINE if named else 0.0)

    title_top = MARGIN + HEAD_LINE * len(heading)
    top = title_top + TEXT_LINE + 0.12
    below_top = top + block * len(blocks)
    legend_top = below_top + TEXT_LINE * len(below) + (0.08 if below else 0.0)
    deletion_top = legend_top + 0.62
    chart_top = deletion_top + TEXT_LINE * len(deletion)
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
    muted = {"size": TEXT_SIZE, "color": QUIET_INK, "va": "top"}
    sheet.text(MARGIN, title_top, _one_line(short_title(record), max_width=max_width), **muted)
    for number, view in enumerate(blocks):
        start = top + block * number
        if named:
            sheet.text(MARGIN, start, view.name, size=TEXT_SIZE, weight="bold", va="top")
            start += TEXT_LINE
        draw_words(axes, record, view, text, top=start)
    for number, line in enumerate(below):
        sheet.text(MARGIN, below_top + TEXT_LINE * number, line, **muted)
    draw_legend(axes, record, left=MARGIN, top=legend_top)
    for number, line in enumerate(deletion):
        sheet.text(MARGIN, deletion_top + TEXT_LINE * number, line, size=TEXT_SIZE, va="top")
    if record.deletion is not None:
        add_deletion(sheet, record.deletion, top=chart_top)
    return sheet.figure


def _one_line(title: str, *, max_width: float) -> str:
    """The title, truncated to one line."""
    text = title
    while text and text_width(f"{text}…", font_size=TEXT_SIZE) > max_width:
        text = text[: -max(1, len(text) // 8)]
    return text if text == title else f"{text}…"
