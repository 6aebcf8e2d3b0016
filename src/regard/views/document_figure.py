"""The picture of a document in a file: its words in lines, shaded by weight, with the deletion test below.

The page (`document_picture.py`) shows the same record for reading on a screen; this is for a paper or a
slide. Beside the lines of a sentence stands a bar as long as the sentence's weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.document_record import DocumentRecord
from regard.core.names import look_up
from regard.views.deletion_plot import LINE as TEXT_LINE
from regard.views.deletion_plot import (
    MARGIN,
    TEXT_SIZE,
    WIDTH,
    add_deletion,
    deletion_height,
    deletion_lines,
)
from regard.views.document_layout import wrapped_lines
from regard.views.document_marks import draw_legend, draw_words, written
from regard.views.document_shades import Shading, shadings
from regard.views.document_words import cut_sentence, left_out_sentence, said_of_label, short_title
from regard.views.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    text_width,
    write_figure,
)

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
