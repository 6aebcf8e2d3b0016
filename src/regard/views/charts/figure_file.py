"""Writes charts as figure files: SVG, or PNG rendered from it, byte for byte reproducible.

A figure file is the chart of the page as standalone SVG on white: the rules of `charts.css` that concern it
are included, in the colours of light mode and without CSS variables, which drawing and typesetting programs
do not support. Text stays text, so a viewer can substitute fonts.
"""

from __future__ import annotations

import math
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, Self

from markupsafe import Markup

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError
from regard.views.charts.svg import element, joined, size_of, stack

SUFFIXES = (".svg", ".png")
# Pixels of a PNG per unit of the SVG; lowered for a larger PNG, which is rendered in memory.
ZOOM = 2.0
MAX_PIXELS = 40e6
# Paper sizes: millimetres of each unit of length, and of a unit of a chart that is laid out for print.
MILLIMETRES = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 25.4 / 72}
MILLIMETRES_PER_UNIT, PRINT_RESOLUTION = 0.2, 300.0
MIN_PAPER, MAX_PAPER = 20.0, 1000.0
NAMESPACE = "http://www.w3.org/2000/svg"
SANS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans', sans-serif"
MONO = f"Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', {SANS}"
ON_WHITE = {"sans": SANS, "mono": MONO, "ground": "#ffffff", "card": "#ffffff"}
# Properties that apply to SVG.
DRAWING = re.compile(r"(?<![\w-])(?:color|fill|stroke|opacity|font|paint-order)[\w-]*: [^;]+;")


def asset(name: str) -> str:
    """The source of a style sheet or a script."""
    return (files("regard.views") / "assets" / name).read_text(encoding="utf-8")


def validate_figure_suffix(path: Path) -> None:
    """Raise an error unless the file name ends in .svg or .png."""
    if path.suffix.lower() not in SUFFIXES:
        raise RegardError(
            f"'{path}' is not a supported figure format. Use a name that ends in "
            f"{' or '.join(SUFFIXES)}."
        )


class PaperWidth(NamedTuple):
    """The width of a figure in print, in millimetres."""

    millimetres: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """The width that a text names.

        >>> PaperWidth.parse("2.5in").millimetres
        63.5
        """
        found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(\w+)\s*", text)
        size = MILLIMETRES.get(found[2].lower()) if found else None
        width = float(found[1]) * size if found and size else 0.0
        if not MIN_PAPER <= width <= MAX_PAPER:
            raise RegardError(
                f"--width {text}: give a width from {MIN_PAPER:g} to {MAX_PAPER:g} mm with its unit, "
                f"{', '.join(MILLIMETRES)}, such as 85mm or 3.5in."
            )
        return cls(width)

    @property
    def units(self) -> float:
        """The width that charts are laid out in, so that their text has 6 to 8 points."""
        return self.millimetres / MILLIMETRES_PER_UNIT


def write_figure(*charts: Markup, path: Path, width: PaperWidth | None = None) -> None:
    """Write charts, one below the other, atomically in the format of the suffix of `path`.

    With a `width`, it is that of the SVG in print, and a PNG has 300 pixels per inch.
    """
    validate_figure_suffix(path)
    drawn = [chart for chart in charts if chart]
    whole = drawn[0] if len(drawn) == 1 else stack(drawn)
    if path.suffix.lower() == ".svg":
        atomic_write(path, standalone(whole, width=width).encode())
        return
    zoom = ZOOM
    if width is not None:
        zoom = width.millimetres / MILLIMETRES["in"] * PRINT_RESOLUTION / size_of(whole)[0]
    atomic_write(path, _png(standalone(whole), zoom=zoom))


def standalone(chart: Markup, *, width: PaperWidth | None = None) -> str:
    """A chart of the page as the text of an SVG file."""
    sides = [f"{side:.0f}" for side in size_of(chart)]
    background = element("rect", width=sides[0], height=sides[1], fill="#ffffff")
    if width is not None:
        scale = width.millimetres / size_of(chart)[0]
        sides = [f"{scale * side:.2f}mm" for side in size_of(chart)]
    opening = f'<svg xmlns="{NAMESPACE}" width="{sides[0]}" height="{sides[1]}"'
    head = joined(element("style", Markup(_style(chart))), background)
    # Characters that XML does not allow, even escaped.
    text = re.sub(r"[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", _escaped, str(chart))
    end = text.index(">") + 1
    return f"{opening}{text[len('<svg') : end]}{head}{text[end:]}\n"


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _style(chart: Markup) -> str:
    """The rules for the classes of a chart, with CSS variables replaced by their values."""
    used = {name for names in re.findall(r'class="([^"]*)"', chart) for name in names.split()}
    rules, values = _rules()
    found = [f"svg {{ font-family: {SANS}; }}"]
    for selectors, body in rules:
        named = [each for each in selectors if set(re.findall(r"\.([\w-]+)", each)) <= used]
        if named:
            found.append(f"{', '.join(named)} {{ {body} }}")
    return re.sub(r"var\(--([\w-]+)\)", lambda name: values[name[1]], "\n".join(found))


@cache
def _rules() -> tuple[list[tuple[list[str], str]], dict[str, str]]:
    """Selectors and drawing properties of `charts.css`, and the values of the CSS variables."""
    sheets = re.sub(r"/\*.*?\*/", "", asset("page.css") + asset("charts.css"), flags=re.DOTALL)
    light = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", sheets)
    rules: list[tuple[list[str], str]] = []
    values: dict[str, str] = {}
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", light):
        if selectors.strip() == ":root":
            values |= dict(re.findall(r"--([\w-]+): ([^;]+);", body))
        fixed = [each.strip() for each in selectors.split(",") if re.search(r"^[^:#\[]+$", each)]
        drawing = " ".join(DRAWING.findall(body))
        if fixed and drawing and all("." in each for each in fixed):
            rules.append((fixed, drawing))
    return rules, values | ON_WHITE


def _png(text: str, *, zoom: float) -> bytes:
    import resvg_py

    require_font()
    width, height = re.findall(r'(?:width|height)="(\d+)"', text)[:2]
    zoom = min(zoom, math.sqrt(MAX_PIXELS / (int(width) * int(height))))
    return bytes(resvg_py.svg_to_bytes(svg_string=text, zoom=zoom))


@cache
def require_font() -> None:
    """Raise an error if no font is installed, since the text of a PNG would be missing."""
    import resvg_py

    empty, letter = (
        bytes(
            resvg_py.svg_to_bytes(
                svg_string=f'<svg xmlns="{NAMESPACE}" width="20" height="20">'
                f'<text x="2" y="16" font-family="{SANS}">{text}</text></svg>'
            )
        )
        for text in ("", "m")
    )
    if empty == letter:
        raise RegardError(
            "A .png file cannot be written, since none of its fonts is installed. Write .svg instead, "
            "or install a font such as DejaVu Sans (package fonts-dejavu)."
        )
