"""Writes charts as figure files: SVG, or PNG rendered from it, byte for byte reproducible.

A figure file is the chart of the page as standalone SVG on white: the rules of the style sheets that
concern it are included, in the colours of light mode and without CSS variables, which drawing and
typesetting programs do not support. Text stays text, so a viewer can substitute fonts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError
from regard.views.pages.html import Markup, asset, element, joined, svg

SUFFIXES = (".svg", ".png")
SHEETS = ("page.css", "study.css", "claims.css", "document.css", "figures.css")
# Pixels of a PNG per unit of the SVG; lowered for a larger PNG, which is rendered in memory.
ZOOM = 2.0
MAX_PIXELS = 40e6
NAMESPACE = "http://www.w3.org/2000/svg"
SANS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans', sans-serif"
MONO = f"Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', {SANS}"
ON_WHITE = {"sans": SANS, "mono": MONO, "ground": "#ffffff", "card": "#ffffff"}
# Properties that apply to SVG.
DRAWING = re.compile(r"(?:color|fill|stroke|opacity|font|paint-order)[\w-]*: [^;]+;")
MARGIN, TITLE_SIZE, TEXT_SIZE = 12.0, 16.0, 13.0


def validate_figure_suffix(path: Path) -> None:
    """Raise an error unless the file name ends in .svg or .png."""
    if path.suffix.lower() not in SUFFIXES:
        raise RegardError(
            f"'{path}' is not a supported figure format. Use a name that ends in "
            f"{' or '.join(SUFFIXES)}."
        )


def write_figure(*charts: Markup, path: Path) -> None:
    """Write charts, one below the other, atomically in the format of the suffix of `path`."""
    validate_figure_suffix(path)
    drawn = [chart for chart in charts if chart]
    text = standalone(drawn[0] if len(drawn) == 1 else stack(drawn))
    atomic_write(path, text.encode() if path.suffix.lower() == ".svg" else _png(text))


def size_of(chart: Markup) -> tuple[float, float]:
    """Width and height of a chart, from its view box."""
    found = re.search(r'viewBox="0 0 (\S+) (\S+)"', chart)
    assert found is not None
    return float(found[1]), float(found[2])


def place(chart: Markup, *, x: float, y: float) -> Markup:
    """The chart at a position in another one."""
    width, height = size_of(chart)
    position = element("svg", x=x, y=y, width=width, height=height).partition(">")[0]
    return Markup(chart.replace("<svg", position, 1))


def stack(charts: Sequence[Markup]) -> Markup:
    """Charts one below the other, as one."""
    top, placed = 0.0, []
    for chart in charts:
        placed.append(place(chart, x=0.0, y=top))
        top += size_of(chart)[1]
    width = max(size_of(chart)[0] for chart in charts)
    return svg(*placed, width=width, height=top)


def text_block(
    text: str, *, max_width: float = math.inf, title: bool = False, max_lines: int = 40
) -> Markup:
    """A text, wrapped into lines, as a chart: a bold title, or quiet text; empty without words."""
    font_size, bold = (TITLE_SIZE, 1.15) if title else (TEXT_SIZE, 1.0)
    lines = wrap_text(text, max_width=max_width, font_size=bold * font_size, max_lines=max_lines)
    if not lines:
        return Markup("")
    height = 1.45 * font_size
    width = 2 * MARGIN + max(text_width(line, font_size=bold * font_size) for line in lines)
    texts = [
        element("text", line, x=MARGIN, y=height * (number + 1), font_size=font_size)
        for number, line in enumerate(lines)
    ]
    class_ = "title" if title else "note"
    return svg(*texts, width=width, height=height * (len(lines) + 0.5), class_=class_)


def standalone(chart: Markup) -> str:
    """A chart of the page as the text of an SVG file."""
    width, height = (f"{side:.0f}" for side in size_of(chart))
    opening = f'<svg xmlns="{NAMESPACE}" width="{width}" height="{height}"'
    background = element("rect", width=width, height=height, fill="#ffffff")
    head = joined(element("style", Markup(_style(chart))), background)
    # Characters that XML does not allow, even escaped.
    chart = Markup(re.sub(r"[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", _escaped, chart))
    end = chart.index(">") + 1
    return f"{opening}{chart[len('<svg') : end]}{head}{chart[end:]}\n"


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _style(chart: Markup) -> str:
    """The rules for the classes of a chart, with CSS variables replaced by their values."""
    used = {name for names in re.findall(r'class="([^"]*)"', chart) for name in names.split()}
    rules, colours = _rules()
    found = [f"svg {{ font-family: {SANS}; }}"]
    for selectors, body in rules:
        named = [each for each in selectors if set(re.findall(r"\.([\w-]+)", each)) <= used]
        if named:
            found.append(f"{', '.join(named)} {{ {body} }}")
    return re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], "\n".join(found))


@cache
def _rules() -> tuple[list[tuple[list[str], str]], dict[str, str]]:
    """Selectors and drawing properties of all rules, and the values of the CSS variables."""
    sheets = re.sub(r"/\*.*?\*/", "", "".join(map(asset, SHEETS)), flags=re.DOTALL)
    light = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", sheets)
    rules: list[tuple[list[str], str]] = []
    colours: dict[str, str] = {}
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", light):
        if selectors.strip() == ":root":
            colours |= dict(re.findall(r"--([\w-]+): ([^;]+);", body))
        fixed = [
            each.strip()
            for each in selectors.split(",")
            if re.search(r"^[^:#\[]*\.[^:#\[]*$", each)
        ]
        drawing = " ".join(re.findall(rf"(?<![\w-]){DRAWING.pattern}", body))
        if fixed and drawing:
            rules.append((fixed, drawing))
    return rules, colours | ON_WHITE


def _png(text: str) -> bytes:
    import resvg_py

    require_font()
    width, height = re.findall(r'(?:width|height)="(\d+)"', text)[:2]
    zoom = min(ZOOM, math.sqrt(MAX_PIXELS / (int(width) * int(height))))
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


def printable(text: str) -> str:
    """The text with unprintable characters escaped.

    >>> printable("tab\\there")
    'tab\\\\there'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


# Widths of the characters of DejaVu Sans, a wide font, in units of the font size.
CHAR_WIDTHS = (("ijlI.,:;'|! ", 0.33), ('frt()[]{}-/"', 0.43), ("mMW@%…", 1.0), ("w", 0.82))


def text_width(text: str, *, font_size: float) -> float:
    """An upper estimate of the width of a line of text, since the font of the viewer is unknown."""
    return font_size * sum(map(_char_width, text))


def _char_width(char: str) -> float:
    for chars, width in CHAR_WIDTHS:
        if char in chars:
            return width
    if unicodedata.east_asian_width(char) in "WF" or ord(char) > 0x2FFF:
        return 1.0
    return 0.74 if char.isupper() else 0.64


def wrap_text(text: str, *, max_width: float, font_size: float, max_lines: int = 40) -> list[str]:
    """Wrap a text into lines of at most `max_width`; long words and further lines are truncated."""
    lines: list[str] = []
    for word in text.split():
        short = word if len(word) <= 32 else f"{word[:31]}…"
        longer = f"{lines[-1]} {short}" if lines else short
        if lines and text_width(longer, font_size=font_size) <= max_width:
            lines[-1] = longer
        elif len(lines) == max_lines:
            lines[-1] += " …"
            break
        else:
            lines.append(short)
    return lines
