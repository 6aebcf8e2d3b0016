"""One of several pictures at a time, chosen by its name; it works without a script."""

from __future__ import annotations

from collections.abc import Sequence

from regard.views.markup import Markup, element

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
