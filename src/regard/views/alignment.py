"""The picture of who read what: a panel a map, output tokens down the side, source tokens along the top.

All panels share one colour scale, from 0 to the largest weight, so that they can be compared; where
weights are negative it goes as far to either side of 0. Cells are squares, of one size in all panels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.alignment_record import AlignmentRecord
from regard.core.names import look_up
from regard.views.alignment_layout import (
    BAR_WIDTH,
    MARGIN,
    NAME_SIZE,
    PAD,
    SMALLEST_CELL,
    TITLE_SIZE,
    Labels,
    Layout,
    layout_of,
)
from regard.views.figure_file import (
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    write_figure,
)

# More cells than this would make an SVG of many megabytes; they become one image a panel.
MOST_DRAWN_CELLS = 20_000
# Rounding may leave a weight just below zero.
NEGATIVE = -1e-6
FRAME = "#d0d7de"


class Panel(NamedTuple):
    """One matrix of the picture, output × source, and the name below it."""

    name: str
    weights: Sequence[Sequence[float]]


def draw_alignment(record: AlignmentRecord, *, path: Path, heads: str = "mean") -> None:
    """Write the picture to `path`, an .svg or a .png.

    `heads` says whether a map of several heads is one panel, their "mean", or a panel for "each".
    """
    require_figure_suffix(path)
    panels = look_up("choice of heads", heads, PANELS)(record)
    with figure_settings():
        layout = layout_of(
            source_tokens=record.source_tokens,
            output_tokens=record.output_tokens,
            names=[panel.name for panel in panels],
            title=record.title,
            columns=_heads_in_each_map(record) if heads == "each" else None,
        )
        write_figure(_figure(panels, layout), path=path)


def _mean_panels(record: AlignmentRecord) -> list[Panel]:
    panels = []
    for name, heads in record.maps.items():
        mean = [
            [sum(weights) / len(heads) for weights in zip(*rows, strict=True)]
            for rows in zip(*heads, strict=True)
        ]
        many = f" (mean of {len(heads)} heads)" if len(heads) > 1 else ""
        panels.append(Panel(shown(f"{name}{many}"), mean))
    return panels


def _head_panels(record: AlignmentRecord) -> list[Panel]:
    return [
        Panel(shown(f"{name}, head {number}" if len(heads) > 1 else name), head)
        for name, heads in record.maps.items()
        for number, head in enumerate(heads, start=1)
    ]


PANELS = {"mean": _mean_panels, "each": _head_panels}


def _heads_in_each_map(record: AlignmentRecord) -> int | None:
    """The number of heads where several maps have the same: a row a map, a column a head."""
    numbers = {len(heads) for heads in record.maps.values()}
    return numbers.pop() if len(record.maps) > 1 and len(numbers) == 1 else None


def _figure(panels: Sequence[Panel], layout: Layout) -> Any:
    sheet = Sheet(width=layout.width, height=layout.height)
    weights = [weight for panel in panels for row in panel.weights for weight in row]
    colours = _colours(weights)
    for number, panel in enumerate(panels):
        left, top = layout.corner(number)
        axes = sheet.axes(left, top, layout.panel_width, layout.panel_height)
        axes.pcolormesh(
            panel.weights,
            norm=colours.norm,
            cmap=colours.cmap,
            edgecolors="white",
            linewidth=0.5 if layout.cell >= SMALLEST_CELL else 0.0,
            rasterized=len(weights) > MOST_DRAWN_CELLS,
        )
        axes.invert_yaxis()
        _label(
            axes, layout, top_row=number < layout.columns, left_column=number % layout.columns == 0
        )
        below = top + layout.panel_height + PAD
        sheet.text(left, below, panel.name, size=NAME_SIZE, va="top")

    sheet.text(
        MARGIN, MARGIN, layout.title, size=TITLE_SIZE, weight="bold", va="top", linespacing=1.3
    )
    above = layout.top - layout.source_height - 2 * PAD
    sheet.text(layout.left, above, "source", size=NAME_SIZE, color=QUIET_INK)
    left = layout.left - 2 * PAD
    sheet.text(left, layout.top - PAD, "output", size=NAME_SIZE, color=QUIET_INK, ha="right")
    _draw_bar(sheet, layout, colours)
    return sheet.figure


def _colours(weights: Sequence[float]) -> Any:
    """The colour scale that all panels share."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    limit = max(map(abs, weights)) or 1.0
    if min(weights) < NEGATIVE:
        return ScalarMappable(norm=Normalize(-limit, limit), cmap="RdBu")
    return ScalarMappable(norm=Normalize(0.0, limit), cmap="Blues")


def _label(axes: Any, layout: Layout, *, top_row: bool, left_column: bool) -> None:
    axes.spines[:].set(color=FRAME, linewidth=0.8)
    axes.tick_params(length=0, pad=PAD * 72 / 2, labelsize=layout.font_size)
    axes.tick_params(labeltop=True, labelbottom=False)
    source, output = layout.source, layout.output
    axes.set_xticks(_middles(source) if top_row else [], source.texts if top_row else [])
    axes.set_yticks(_middles(output) if left_column else [], output.texts if left_column else [])
    if top_row:
        for text, turn in zip(axes.get_xticklabels(), layout.source_turns, strict=True):
            text.set_rotation(turn)


def _middles(labels: Labels) -> list[float]:
    return [position + 0.5 for position in labels.positions]


def _draw_bar(sheet: Sheet, layout: Layout, colours: Any) -> None:
    left = layout.bar_left
    bar = sheet.figure.colorbar(
        colours, cax=sheet.axes(left, layout.top, BAR_WIDTH, layout.bar_height)
    )
    bar.outline.set(edgecolor=FRAME, linewidth=0.8)
    bar.ax.tick_params(length=2, labelsize=8)
    sheet.text(left, layout.top - 1.5 * PAD, "weight", size=NAME_SIZE, color=QUIET_INK)
