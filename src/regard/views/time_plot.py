"""Predicted time against length as a picture in a file: a line each, named at its end, crossings marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.core.cost_report import CostReport
from regard.core.errors import RegardError
from regard.views.cost_chart import spread
from regard.views.cost_text import machine_text, setting_text
from regard.views.figure_file import (
    INK,
    QUIET_INK,
    Sheet,
    figure_settings,
    require_figure_suffix,
    shown,
    text_width,
    write_figure,
)
from regard.views.time_scale import (
    Ranges,
    height_name,
    height_text,
    length_ticks,
    marks,
    ranges,
)

# Inches.
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 9.6, 6.2, 0.85, 0.95, 0.65
LABEL_SIZE, LINE_HEIGHT, LEADER = 9.0, 0.17, 0.28
GRID = "#eaeef2"
FAMILY_COLOURS = ("#2463b4", "#b8480f", "#1f7f57", "#8447a8", "#94700a", "#6e7781")


def draw_time_plot(report: CostReport, *, path: Path) -> None:
    """Write the picture to `path`, an .svg or a .png."""
    require_figure_suffix(path)
    found = ranges(report)
    if found is None:
        raise RegardError(
            "There are no curves of two lengths or more to draw. Name mechanisms that do this shape."
        )
    with figure_settings():
        write_figure(_figure(report, found), path=path)


def _figure(report: CostReport, found: Ranges) -> Any:
    names = [shown(curve.name) for curve in report.curves]
    right = LEADER + max(text_width(name, font_size=LABEL_SIZE) for name in names) + 0.15
    sheet = Sheet(width=WIDTH, height=HEIGHT)
    width, height = WIDTH - LEFT - right, HEIGHT - TOP - BOTTOM
    axes = sheet.axes(LEFT, TOP, width, height)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(found.shortest, found.longest)
    axes.set_ylim(10.0**found.floor, 10.0**found.ceiling)
    lengths = length_ticks(found)
    axes.set_xticks(lengths, labels=[str(length) for length in lengths])
    powers = range(found.floor, found.ceiling + 1)
    axes.set_yticks([10.0**p for p in powers], labels=[height_text(report, p) for p in powers])
    axes.minorticks_off()
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("tokens")
    sheet.text(LEFT, 0.35, f"{height_name(report)} against length", size=12, weight="bold")
    sheet.text(LEFT, 0.58, setting_text(report, with_length=False), size=9, color=QUIET_INK)
    sheet.text(LEFT, 0.76, machine_text(report), size=9, color=QUIET_INK)
    _draw_curves(axes, report, width=width, height=height)
    for mark in marks(report):
        for crossing in mark.crossings:
            axes.plot(crossing.length, crossing.height, "o", mfc="none", mec=INK, ms=8, zorder=4)
        axes.annotate(
            mark.label,
            (mark.length, mark.height),
            xytext=(-8, 7),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
            weight="bold",
            bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
        )
    return sheet.figure


def _draw_curves(axes: Any, report: CostReport, *, width: float, height: float) -> None:
    """The lines, and their names beside their ends, in inches apart."""
    curves = sorted(report.curves, key=lambda curve: -curve.points[-1][1])
    to_share = (axes.transScale + axes.transLimits).transform
    ends = [height * (1 - to_share(curve.points[-1])[1]) for curve in curves]
    for curve, end, label in zip(
        curves, ends, spread(ends, least=LINE_HEIGHT, top=0.0), strict=True
    ):
        colour = _colour(report, curve.family)
        axes.plot(*zip(*curve.points, strict=True), color=colour, lw=1.6)
        axes.annotate(
            shown(curve.name),
            (1.0, 1 - end / height),
            xycoords="axes fraction",
            xytext=(1 + LEADER / width, 1 - label / height),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=LABEL_SIZE,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "alpha": 0.4,
                "lw": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 1,
            },
        )


def _colour(report: CostReport, family: str) -> str:
    if family == "layer":
        return INK
    return FAMILY_COLOURS[report.families.index(family) % len(FAMILY_COLOURS)]
