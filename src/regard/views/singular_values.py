"""The picture of what a penalty does to a linear autoencoder: singular values of the encoder, by penalty.

Points are what was fitted; the line behind them is √max(0, 1 − λ/s), which follows from an eigenvalue s
of the data alone (Kunin et al. 2019). A line meets the ground where the penalty reaches its eigenvalue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.views.figure_file import Sheet, figure_settings, require_figure_suffix, write_figure

# Inches.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 7.2, 3.8, 0.75, 1.05, 0.5, 0.6
GRID = "#eaeef2"
LINE_POINTS = 400


def draw_singular_values(
    *,
    penalties: Sequence[float],
    singular_values: Sequence[Sequence[float]],
    eigenvalues: Sequence[float],
    path: Path,
) -> None:
    """Write the picture to `path`, an .svg or a .png.

    `singular_values` has a row for each penalty and in it a value for each eigenvalue. Penalties are
    drawn on a logarithmic scale, so they must be above 0.
    """
    require_figure_suffix(path)
    if not penalties or any(not 0 < penalty < math.inf for penalty in penalties):
        raise RegardError(
            f"The penalties {list(penalties)} cannot be drawn on a logarithmic scale. "
            "Give one or more, all finite and above 0."
        )
    lengths = [len(row) for row in singular_values]
    if lengths != [len(eigenvalues)] * len(penalties):
        raise RegardError(
            f"There are {len(penalties)} penalties and {len(eigenvalues)} eigenvalues, but rows of "
            f"{lengths} singular values. Give a row for each penalty, and in it a value for each "
            "eigenvalue."
        )
    with figure_settings():
        write_figure(_figure(penalties, singular_values, eigenvalues), path=path)


def _figure(
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
        # The point where it meets the ground is on the line, however steep the last part is.
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
    # The usual labels of such a scale are formulas, which figures of ours do not read.
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
