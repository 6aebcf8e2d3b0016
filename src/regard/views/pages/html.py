"""Builds HTML and SVG: elements, self-contained pages, and tabs. Text is escaped unless it is `Markup`.

>>> element("td", "a < b", class_="wide")
'<td class="wide">a &lt; b</td>'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any


class Markup(str):
    """Text that is already HTML and is not escaped."""

    __slots__ = ()


Attribute = str | int | float | bool | None

VOID = frozenset({"meta", "input", "wbr"})


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """An element. Underscores in attribute names become hyphens, a trailing one is dropped.

    Attributes that are None or False are omitted; those that are True have no value.
    """
    opening = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    if tag in VOID:
        return Markup(opening)
    return Markup(f"{opening}{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Concatenate children, each escaped unless it is markup."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c) for c in children))


def scrolled(content: Markup, label: str) -> Markup:
    """Wide content in a region that scrolls."""
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def table(
    headings: Iterable[str], rows: Iterable[Markup], *, class_: str, caption: str = ""
) -> Markup:
    """A table; plain text becomes the heading of a column, markup is one already."""
    heads = [each if isinstance(each, Markup) else heading(each) for each in headings]
    head = element("thead", element("tr", *heads))
    title = element("caption", caption) if caption else ""
    return element("table", title, head, element("tbody", *rows), class_=class_)


def heading(text: str, **attributes: Attribute) -> Markup:
    """The heading of a column of a table."""
    return element("th", text, scope="col", **attributes)


def row(name: str, *cells: str, class_: str | None = None) -> Markup:
    """A named row of a table; plain text becomes a cell, markup is one already."""
    found = [cell if isinstance(cell, Markup) else element("td", cell) for cell in cells]
    return element("tr", element("th", name, scope="row"), *found, class_=class_)


def svg(
    *content: str, width: float, height: float, class_: str | None = None, **attributes: Attribute
) -> Markup:
    """A chart of this size; with `aria_label` it is an image."""
    if "aria_label" in attributes:
        attributes.setdefault("role", "img")
    view_box = f"0 0 {width:.0f} {height:.0f}"
    return element("svg", *content, viewBox=view_box, class_=class_, **attributes)


def section(anchor: str, title: str, *content: Markup) -> Markup:
    """A section of a page with its heading."""
    heading = element("h2", title, id=f"{anchor}-heading")
    return element("section", heading, *content, id=anchor, aria_labelledby=f"{anchor}-heading")


def definitions(pairs: Iterable[tuple[str, str]], *, class_: str = "meanings") -> Markup:
    """A list of words with their meanings."""
    found = [joined(element("dt", word), element("dd", meaning)) for word, meaning in pairs]
    return element("dl", *found, class_=class_)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    html_name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {html_name}"
    if isinstance(value, float):
        # Coordinates to two decimals keep pages small.
        return f' {html_name}="{value:.2f}"'.replace('.00"', '"')
    return f' {html_name}="{escape(str(value))}"'


def page(*, title: str, body: Iterable[Markup], kind: str | None = None) -> str:
    """A self-contained HTML page with inline style and script; `kind` adds those of one kind of page."""
    names = ["page", kind] if kind else ["page"]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        # The browser blocks all requests, whatever the page contains.
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
    """The source of a style sheet or a script."""
    return (files("regard.views") / "assets" / name).read_text(encoding="utf-8")


def footer(text: str) -> Markup:
    """The footer of a page."""
    return element("footer", element("p", f"{text} The page loads no external resources."))


def totals(numbers: Mapping[str, int], *, alarm: str) -> Markup:
    """Tiles of named numbers; `alarm` is the one that should be 0."""
    tiles = [
        element(
            "div",
            element("dt", name),
            element("dd", str(number)),
            class_="alarm" if name == alarm and number else None,
        )
        for name, number in numbers.items()
    ]
    return element("dl", *tiles, class_="totals")


def choice(
    label: str,
    texts: Mapping[Any, str],
    *,
    name: str,
    checked: object = None,
    class_: str = "radio-group",
) -> Markup:
    """Radio buttons by value, for a script; the first one is checked unless `checked` is another."""
    checked = next(iter(texts)) if checked is None else checked
    buttons = [
        element(
            "label",
            element("input", type="radio", name=name, value=value, checked=value == checked),
            element("span", text),
        )
        for value, text in texts.items()
    ]
    legend = element("legend", label)
    return element("fieldset", legend, *buttons, class_=f"{class_} needs-script")


# The style sheet has rules for this many.
MAX_TABS = 12


def tabs(panes: Sequence[tuple[str, Markup]], *, key: str, label: str) -> Markup:
    """Panes with one tab each, without a script; `key` is unique on the page.

    A single pane has no tabs; panes beyond `MAX_TABS` are omitted.
    """
    panes = panes[:MAX_TABS]
    if len(panes) < 2:
        return element("div", *(pane for _, pane in panes))
    buttons: list[Markup] = []
    for index, (name, _) in enumerate(panes):
        identifier = f"{key}-{index}"
        buttons += [
            element("input", type="radio", name=key, id=identifier, checked=index == 0),
            element("label", name, for_=identifier),
        ]
    shown = element("div", *(element("div", pane) for _, pane in panes), class_="tab-panes")
    return element(
        "div",
        element("span", label, class_="tabs-label", id=f"{key}-label"),
        *buttons,
        shown,
        class_="tabs",
        role="group",
        aria_labelledby=f"{key}-label",
    )
