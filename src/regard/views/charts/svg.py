"""SVG of charts: elements with escaped text and attributes, charts beside and below each other.

>>> element("text", "a < b", class_="tick", x=1.0)
Markup('<text class="tick" x="1">a &lt; b</text>')
"""

from __future__ import annotations

import base64
import math
import re
import struct
import unicodedata
import zlib
from collections.abc import Sequence

from markupsafe import Markup, escape

Attribute = str | int | float | bool | None
MARGIN, TITLE_SIZE, TEXT_SIZE = 12.0, 16.0, 13.0


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """An element. Underscores in attribute names become hyphens, a trailing one is dropped.

    Attributes that are None or False are omitted; those that are True have no value.
    """
    inside = "".join(_attribute(name, value) for name, value in attributes.items())
    return Markup(f"<{tag}{inside}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Concatenate children, each escaped unless it is markup."""
    return Markup("".join(map(escape, children)))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    html_name = name.rstrip("_").replace("_", "-")
    if isinstance(value, float):
        # Coordinates to two decimals keep pages small.
        return f' {html_name}="{value:.2f}"'.replace('.00"', '"')
    return f" {html_name}" if value is True else f' {html_name}="{escape(str(value))}"'


def svg(*content: str, width: float, height: float, **attributes: Attribute) -> Markup:
    """A chart of this size; with `aria_label` it is an image."""
    if "aria_label" in attributes:
        attributes.setdefault("role", "img")
    view_box = f"0 0 {math.ceil(width)} {math.ceil(height)}"
    return element("svg", *content, viewBox=view_box, **attributes)


def png_uri(rows: Sequence[bytes], *, channels: int = 1) -> str:
    """An image as the data URI of a PNG; a byte is a pixel, from 0 (black) to 255 (white).

    With three channels, three bytes are a pixel: red, green and blue.
    """

    def chunk(name: bytes, content: bytes) -> bytes:
        check = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)

    colour_type = 0 if channels == 1 else 2
    size = len(rows[0]) // channels, len(rows)
    header = struct.pack(">IIBBBBB", *size, 8, colour_type, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), level=9)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    file = b"\x89PNG\r\n\x1a\n" + b"".join(parts)
    return f"data:image/png;base64,{base64.b64encode(file).decode('ascii')}"


def titled(title: str, *content: str, **attributes: Attribute) -> Markup:
    """A group with a title, which is shown on hovering."""
    return element("g", element("title", title), *content, **attributes)


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """The `points` attribute of a line."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def size_of(chart: Markup) -> tuple[float, float]:
    """Width and height of a chart, from its view box."""
    found = re.search(r'viewBox="0 0 (\S+) (\S+)"', chart)
    assert found is not None
    return float(found[1]), float(found[2])


def place(chart: Markup, *, x: float, y: float) -> Markup:
    """The chart at a position in another one."""
    width, height = size_of(chart)
    position = str(element("svg", x=x, y=y, width=width, height=height)).partition(">")[0]
    return Markup(str(chart).replace("<svg", position, 1))


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
        return Markup()
    height = 1.45 * font_size
    width = 2 * MARGIN + max(text_width(line, font_size=bold * font_size) for line in lines)
    texts = [
        element("text", line, x=MARGIN, y=height * (number + 1), font_size=font_size)
        for number, line in enumerate(lines)
    ]
    class_ = "title" if title else "note"
    return svg(*texts, width=width, height=height * (len(lines) + 0.5), class_=class_)


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
    for word in re.findall(r"[^ \t\r\n]+", text):  # not at the narrow spaces of numbers
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
