"""HTML and SVG elements as values. Text is escaped unless it is markup already.

>>> element("td", "a < b", class_="wide")
'<td class="wide">a &lt; b</td>'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files


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


# A whole page in one file: style and script are inside it, and it fetches nothing.


def page(*, title: str, body: Iterable[Markup], kind: str | None = None) -> str:
    """The text of an HTML file. A `kind` of page has a style and a script beyond those of every page."""
    names = ["page", kind] if kind else ["page"]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        # The browser itself then refuses to fetch anything, whatever got into the page.
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'",
        ),
        element("title", title),
        element("style", Markup("".join(asset(f"{name}.css") for name in names))),
    )
    script = element("script", Markup("".join(asset(f"{name}.js") for name in names)))
    html = element("html", head, element("body", *body, script), lang="en")
    return f"<!doctype html>\n{joined(html)}\n"


def asset(name: str) -> str:
    """The text of a style sheet or a script."""
    return (files("regard.views") / "assets" / name).read_text(encoding="utf-8")


# One of several pictures at a time, chosen by its name; it works without a script.


# The style sheet has a rule for as many.
MOST_PANES = 12


def chooser(panes: Sequence[tuple[str, Markup]], *, key: str, asks: str) -> Markup:
    """The panes under a row of their names; `key` is unique on the page, `asks` is read before the names.

    A single pane needs no choice, and panes beyond the twelfth are left out.
    """
    panes = panes[:MOST_PANES]
    if len(panes) < 2:
        return element("div", *(pane for _, pane in panes))
    choices: list[Markup] = []
    for place, (name, _) in enumerate(panes):
        identifier = f"{key}-{place}"
        choices += [
            element("input", type="radio", name=key, id=identifier, checked=place == 0),
            element("label", name, for_=identifier),
        ]
    shown = element("div", *(element("div", pane) for _, pane in panes), class_="panes")
    return element(
        "div",
        element("span", asks, class_="asks", id=f"{key}-asks"),
        *choices,
        shown,
        class_="chooser",
        role="group",
        aria_labelledby=f"{key}-asks",
    )
