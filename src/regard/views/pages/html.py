"""Builds HTML and SVG: elements, self-contained pages, and tabs. Text is escaped unless it is `Markup`.

>>> element("td", "a < b", class_="wide")
'<td class="wide">a &lt; b</td>'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files


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
