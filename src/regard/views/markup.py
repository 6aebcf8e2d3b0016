"""HTML and SVG elements as values. Text is escaped unless it is markup already.

>>> element("td", "a < b", class_="wide")
'<td class="wide">a &lt; b</td>'
"""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is already HTML. Everything else is escaped where it is put into an element."""

    __slots__ = ()


Attribute = str | int | float | bool | None

VOID = frozenset({"meta", "input", "wbr"})


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """An element. An attribute's underscores become hyphens, a trailing one is dropped.

    An attribute that is None or False is left out; one that is True has no value.
    """
    opening = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    if tag in VOID:
        return Markup(opening)
    return Markup(f"{opening}{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Pieces one after the other, each escaped unless it is markup."""
    pieces = [child if isinstance(child, Markup) else escape(child) for child in children]
    return Markup("".join(pieces))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {shown}"
    if isinstance(value, float):
        # Coordinates to a hundredth: finer is invisible and makes the page longer.
        return f' {shown}="{value:.2f}"'.replace('.00"', '"')
    return f' {shown}="{escape(str(value))}"'
