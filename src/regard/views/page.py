"""A whole page in one file: style and script are inside it, and it fetches nothing."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from regard.views.markup import Markup, element, joined


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
