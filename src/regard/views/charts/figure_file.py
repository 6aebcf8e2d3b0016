"""Matplotlib figures as SVG or PNG files: the same figure gives the same bytes, wherever it is drawn.

The settings of whoever runs it play no part and are left as they were. Letters of an SVG stay text, so
that a viewer shows scripts which the font at hand lacks; in a PNG such letters are empty boxes.
"""

from __future__ import annotations

import io
import math
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core.atomic_write import write_whole
from regard.core.errors import RegardError

SUFFIXES = (".svg", ".png")
USUAL_DPI = 160.0
# A larger PNG is drawn more coarsely, since it is held in memory whole.
MOST_PIXELS = 40e6
INK = "#24292f"
QUIET_INK = "#6e7781"


def require_figure_suffix(path: Path) -> None:
    """Refuse a path from whose name the kind of picture cannot be told."""
    if path.suffix.lower() not in SUFFIXES:
        raise RegardError(
            f"'{path}' names no kind of picture that can be drawn. "
            f"End the name in {' or '.join(SUFFIXES)}."
        )


class Sheet:
    """A white figure on which things are placed in inches, from the left and from the top."""

    def __init__(self, *, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure: Any = Figure(figsize=(width, height), facecolor="white")

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        """New axes that fill a rectangle."""
        bottom = self.height - top - height
        across, up = self.width, self.height
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))

    def text(self, left: float, top: float, text: str, **looks: Any) -> None:
        """Text at a place."""
        self.figure.text(left / self.width, 1 - top / self.height, text, **looks)


@contextmanager
def figure_settings() -> Iterator[None]:
    """Within it, figures are made and written with settings of ours and without warnings."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box; a warning each would fill the terminal.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.family": ["DejaVu Sans"],
                "text.parse_math": False,
                "text.color": INK,
                "axes.labelcolor": INK,
                "axes.edgecolor": QUIET_INK,
                "xtick.color": QUIET_INK,
                "ytick.color": QUIET_INK,
                "xtick.labelcolor": INK,
                "ytick.labelcolor": INK,
                "svg.fonttype": "none",
                "svg.hashsalt": "regard",
            }
        )
        yield


def write_figure(figure: Any, *, path: Path) -> None:
    """Write a matplotlib figure to `path`, whole or not at all, as the kind its name ends in."""
    require_figure_suffix(path)
    kind = path.suffix.lower().removeprefix(".")
    width, height = figure.get_size_inches()
    dpi = min(USUAL_DPI, math.sqrt(MOST_PIXELS / float(width * height)))
    metadata = {"Creator": "regard", "Date": None} if kind == "svg" else {"Software": "regard"}
    held = io.BytesIO()
    figure.savefig(held, format=kind, dpi=dpi, metadata=metadata)
    write_whole(path, held.getvalue())


def shown(text: str) -> str:
    """The text with a visible stand-in for whatever cannot be printed, nor stand in an SVG.

    >>> shown("tab\\there")
    'tab\\\\there'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def text_width(text: str, *, font_size: float, weight: str = "normal") -> float:
    """The width of a line of text in inches, for leaving room; full-width letters get theirs."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    font = FontProperties(size=font_size, weight=weight)
    measured, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return max(float(measured), wide * font_size) / 72
