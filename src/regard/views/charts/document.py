"""Document figures: words shaded by attention weight, with the deletion test below.

A figure file for papers and slides; `pages/document.py` shows the same record as a page. A bar beside each
sentence is proportional to its weight.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from regard.core.records.document import DocumentRecord
from regard.core.registry import lookup
from regard.views.charts.axes import truncate
from regard.views.charts.deletion import deletion_chart, deletion_sentence, deletion_verdict
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
    truncation_note,
    weight_views,
)
from regard.views.charts.figure_file import (
    MARGIN,
    printable,
    text_block,
    text_width,
    validate_figure_suffix,
    write_figure,
)
from regard.views.pages.html import Markup, element, joined, svg

WIDTH, MAX_WORDS, MAX_WORD_LENGTH, MAX_BLOCKS = 640.0, 400, 32, 12
WORD_SIZE, LINE, BOX_HEIGHT, INSIDE, SPACE = 14.0, 26.0, 21.0, 3.0, 4.0
BAR_SPACE, BAR_LENGTH = 92.0, 50.0


class WordLayout(NamedTuple):
    """Words that are drawn and their positions, the same in every block."""

    tokens: list[DisplayToken]
    positions: list[WordPosition]
    starts: list[int]
    left: float


def draw_document(record: DocumentRecord, *, path: Path, hops: str = "mean") -> None:
    """Draw the document to `path`, an .svg or .png file.

    `hops` is "mean" for the text shaded by the mean over hops, or "each" for one more copy per hop.
    """
    validate_figure_suffix(path)
    views = lookup("choice of hops", hops, VIEW_CHOICES)(weight_views(record))
    text = layout_document(record, left=MARGIN, right=WIDTH - MARGIN)
    notes = [omission_note(record, drawn=len(text.positions)), truncation_note(record)]
    if len(views) > MAX_BLOCKS:
        notes.append(f"{len(views) - MAX_BLOCKS} more hops are not drawn.")
    prediction = f"{printable(record.label)}, {prediction_sentence(record)}"
    max_width = WIDTH - 2 * MARGIN
    blocks = [
        text_block(prediction, max_width=max_width, title=True),
        text_block(short_title(record), max_width=max_width, max_lines=1),
    ]
    for view in views[:MAX_BLOCKS]:
        blocks += [text_block(view.name)] if len(views) > 1 else []
        blocks.append(_words(record, view, text))
    blocks += [text_block(" ".join(notes), max_width=max_width), _legend(record)]
    if record.deletion is not None:
        summary = f"{deletion_sentence(record.deletion)} {deletion_verdict(record.deletion)}"
        blocks += [text_block(summary, max_width=max_width), deletion_chart(record.deletion)]
    write_figure(*blocks, path=path)


VIEW_CHOICES = {"mean": lambda views: views[:1], "each": lambda views: views}


def layout_document(record: DocumentRecord, *, left: float, right: float) -> WordLayout:
    """Lay out the first words of a document between two edges."""
    drawn = [
        DisplayToken(truncate(piece.text, MAX_WORD_LENGTH), piece.continues_word)
        for piece in display_tokens(record.tokens)[:MAX_WORDS]
    ]
    starts = [start for start in sentence_starts(record) if start < len(drawn)]
    left += BAR_SPACE if record.sentence_weights is not None else 0.0
    positions = layout_words(
        [text_width(piece.text, font_size=WORD_SIZE) + 2 * INSIDE for piece in drawn],
        continues_word=[piece.continues_word for piece in drawn],
        starts=set(starts),
        max_width=right - left,
        space=SPACE,
    )
    return WordLayout(drawn, positions, starts, left)


def _words(record: DocumentRecord, view: WeightView, text: WordLayout) -> Markup:
    """One block of shaded words, with the bars of sentence weights."""
    parts = [
        _word(
            piece.text,
            left=text.left + position.left,
            top=LINE * position.line,
            width=position.width,
            relative=relative,
            marker=token in MARKERS,
        )
        for token, piece, position, relative in zip(
            record.tokens, text.tokens, text.positions, view.relative, strict=False
        )
    ]
    if record.sentence_weights is not None:
        for start, end in pairwise([*text.starts, len(text.positions)]):
            weight = record.sentence_weights[record.segments[start]]
            lines = text.positions[start].line, text.positions[end - 1].line
            parts.append(_bar(weight, lines=lines, right=text.left - 8))
    height = LINE * (text.positions[-1].line + 1) + MARGIN
    return svg(*parts, width=WIDTH, height=height, class_="document-words")


def _word(
    text: str, *, left: float, top: float, width: float, relative: float, marker: bool = False
) -> Markup:
    middle, baseline = left + width / 2, top + 0.72 * BOX_HEIGHT
    return joined(
        element(
            "rect",
            class_="shade",
            x=left,
            y=top,
            width=width,
            height=BOX_HEIGHT,
            fill_opacity=shade_opacity(relative),
        ),
        element(
            "text",
            text,
            class_="marker" if marker else None,
            x=middle,
            y=baseline,
            text_anchor="middle",
        ),
    )


def _bar(weight: float, *, lines: tuple[int, int], right: float) -> Markup:
    top, bottom, length = LINE * lines[0], LINE * lines[1] + BOX_HEIGHT, BAR_LENGTH * weight
    left, baseline = right - length, top + 0.72 * BOX_HEIGHT
    return joined(
        element("line", class_="edge", x1=right, x2=right, y1=top, y2=bottom),
        element("rect", class_="bar", x=left, y=top + 5, width=length, height=BOX_HEIGHT - 10),
        element(
            "text", f"{weight:.2f}", class_="weight", x=left - 4, y=baseline, text_anchor="end"
        ),
    )


def _legend(record: DocumentRecord) -> Markup:
    left, parts = MARGIN, []
    for relative in LEGEND:
        text = relative_text(relative)
        width = text_width(text, font_size=WORD_SIZE) + 2 * INSIDE
        parts.append(_word(text, left=left, top=0.0, width=width, relative=relative))
        left += width + 2 * SPACE
    bars = "" if record.sentence_weights is None else "; bars at the left: sentence weights"
    second = f"opacity is relative weight / (relative weight + {HALF_SHADE:g}){bars}"
    baseline = 0.72 * BOX_HEIGHT
    parts += [
        element("text", "of the uniform weight;", class_="weight", x=left, y=baseline),
        element("text", second, class_="weight", x=MARGIN, y=LINE + baseline),
    ]
    return svg(*parts, width=WIDTH, height=2 * LINE + MARGIN, class_="document-words")
