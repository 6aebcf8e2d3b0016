"""Writes Matplotlib figures as SVG or PNG files, byte for byte reproducible.

The user's rcParams are neither used nor changed. Text in an SVG stays text, so a viewer can substitute
fonts; in a PNG, glyphs that the font lacks are drawn as empty boxes.
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

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError

SUFFIXES = (".svg", ".png")
DPI = 160.0
# The resolution is lowered for a larger PNG, which is rendered in memory.
MAX_PIXELS = 40e6
INK = "#24292f"
QUIET_INK = "#6e7781"
GRID = "#eaeef2"


def validate_figure_suffix(path: Path) -> None:
    """Raise an error unless the file name ends in .svg or .png."""
    if path.suffix.lower() not in SUFFIXES:
        raise RegardError(
            f"'{path}' is not a supported figure format. Use a name that ends in "
            f"{' or '.join(SUFFIXES)}."
        )


class Sheet:
    """A Matplotlib figure with positions in inches from the left and from the top."""

    def __init__(self, *, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure: Any = Figure(figsize=(width, height), facecolor="white")

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        """Add axes at a rectangle."""
        bottom = self.height - top - height
        across, up = self.width, self.height
        return self.figure.add_axes((left / across, bottom / up, width / across, height / up))

    def text(self, left: float, top: float, text: str, **text_kwargs: Any) -> None:
        """Add text at a position."""
        self.figure.text(left / self.width, 1 - top / self.height, text, **text_kwargs)


@contextmanager
def figure_settings() -> Iterator[None]:
    """Context in which figures use our rcParams and font warnings are silenced."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # One warning for every glyph that the font lacks.
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
    """Write a figure atomically, in the format of the suffix of `path`."""
    validate_figure_suffix(path)
    kind = path.suffix.lower().removeprefix(".")
    width, height = figure.get_size_inches()
    dpi = min(DPI, math.sqrt(MAX_PIXELS / float(width * height)))
    metadata = {"Creator": "regard", "Date": None} if kind == "svg" else {"Software": "regard"}
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    atomic_write(path, buffer.getvalue())


def printable(text: str) -> str:
    """The text with unprintable characters escaped.

    >>> printable("tab\\there")
    'tab\\\\there'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def text_width(text: str, *, font_size: float, weight: str = "normal") -> float:
    """The width of a line of text in inches, with full-width characters counted as such."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    font = FontProperties(size=font_size, weight=weight)
    measured, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return max(float(measured), wide * font_size) / 72
