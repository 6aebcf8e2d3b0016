"""The deletion test as a picture in a file: the chart of `deletion_chart.py`, drawn by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.core.deletion_record import DeletionRecord
from regard.views.cost_chart import spread
from regard.views.deletion_chart import fall_scale, share_scale
from regard.views.deletion_text import (
    NAMES,
    deletion_sentence,
    deletion_verdict,
)
from regard.views.document_layout import wrapped_lines
from regard.views.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    write_figure,
)
from regard.views.numbers import percent_text

# Inches.
WIDTH, CHART_HEIGHT, LEFT, RIGHT, BOTTOM, MARGIN = 6.4, 2.6, 0.7, 1.25, 0.6, 0.2
LINE, TEXT_SIZE, LABEL_ROOM = 0.2, 9.5, 0.17
COLOURS = {"top": "#b8480f", "random": QUIET_INK, "least": "#2463b4"}
STYLES = {"top": "-", "random": "--", "least": ":"}
GRID = "#eaeef2"


def draw_deletion(record: DeletionRecord, *, path: Path) -> None:
    """Write the picture, with the sentence of what it shows above it, to `path`: an .svg or a .png."""
    require_figure_suffix(path)
    with figure_settings():
        lines = deletion_lines(record, room=WIDTH - 2 * MARGIN)
        top = MARGIN + LINE * len(lines)
        sheet = Sheet(width=WIDTH, height=top + deletion_height())
        for number, line in enumerate(lines):
            sheet.text(MARGIN, MARGIN + LINE * number, line, size=TEXT_SIZE, va="top")
        add_deletion(sheet, record, top=top)
        write_figure(sheet.figure, path=path)


def deletion_lines(record: DeletionRecord, *, room: float) -> list[str]:
    """What the chart shows and what that means, in lines of at most so many inches."""
    said = f"{deletion_sentence(record)} {deletion_verdict(record)}"
    return wrapped_lines(said, room=room, font_size=TEXT_SIZE)


def deletion_height() -> float:
    """How much room the chart takes, its name above and its axis below it included."""
    return 0.4 + CHART_HEIGHT + BOTTOM


def add_deletion(sheet: Sheet, record: DeletionRecord, *, top: float) -> None:
    """Put the chart on a sheet, from `top` on."""
    axes = sheet.axes(LEFT, top + 0.4, WIDTH - LEFT - RIGHT, CHART_HEIGHT)
    up, across = (scale(record, start=0.0, end=1.0) for scale in (fall_scale, share_scale))
    axes.set_xscale("log")
    axes.set_xlim(across.low, across.high)
    axes.set_ylim(up.low, up.high)
    axes.set_xticks(record.shares, labels=[percent_text(share) for share in record.shares])
    axes.minorticks_off()
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.axhline(0.0, color=QUIET_INK, lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5)
    axes.set_xlabel("words removed", fontsize=TEXT_SIZE)
    sheet.text(MARGIN, top + 0.3, "fall of the label’s probability", size=TEXT_SIZE, weight="bold")
    _draw_orders(axes, record)


def _draw_orders(axes: Any, record: DeletionRecord) -> None:
    orders = record.orders()
    named = sorted(orders, key=lambda name: -orders[name].falls[-1].mean)
    up = fall_scale(record, start=CHART_HEIGHT, end=0.0)
    ends = [up.place(orders[name].falls[-1].mean) for name in named]
    for name, label in zip(named, spread(ends, least=LABEL_ROOM, top=0.0), strict=True):
        falls, colour = orders[name].falls, COLOURS[name]
        means = [fall.mean for fall in falls]
        low, high = (
            [fall.mean if end is None else end for fall, end in zip(falls, side, strict=True)]
            for side in ([fall.low for fall in falls], [fall.high for fall in falls])
        )
        axes.fill_between(record.shares, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(
            record.shares,
            means,
            color=colour,
            ls=STYLES[name],
            lw=1.7,
            marker="o",
            ms=4,
            clip_on=False,
        )
        axes.annotate(
            NAMES[name],
            (1.02, 1 - label / CHART_HEIGHT),
            xycoords="axes fraction",
            va="center",
            color=colour,
            fontsize=TEXT_SIZE,
        )
