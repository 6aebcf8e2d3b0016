"""Which label was taken for which, as a table for a page: a row a right label, a column a predicted one.

A cell is shaded by its share of the row, so that rare labels are seen as well as common ones: right ones in
one colour, mistakes in another. Beside each row stands how much of it was found.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.errors import RegardError
from regard.views.heatmap import opacity
from regard.views.markup import Markup, element, joined
from regard.views.numbers import spaced


def confusion_table(*, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """The table of the counts of a confusion record: `counts[i][j]` items of label i, taken for j."""
    if len(counts) != len(labels) or any(len(row) != len(labels) for row in counts):
        raise RegardError(
            f"There are {len(labels)} labels, but the counts are not {len(labels)} rows of as many. "
            "Give a confusion record as it was written."
        )
    heads = [element("th", element("span", label), scope="col") for label in labels]
    rows = [
        _row(label, row, number=number, labels=labels)
        for number, (label, row) in enumerate(zip(labels, counts, strict=True))
    ]
    table = element(
        "table",
        element(
            "thead",
            element(
                "tr", element("td", "right, said:"), *heads, element("th", "found", scope="col")
            ),
        ),
        element("tbody", *rows),
        class_="matrix confusion",
    )
    hint = element(
        "p",
        "A row holds the texts of one label; a cell says how many of them got the label above it, and is "
        "shaded by their share. What stands off the diagonal is wrong.",
        class_="hint",
    )
    scrolled = element(
        "div",
        table,
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Right and said labels",
    )
    return joined(hint, scrolled)


def _row(label: str, row: Sequence[int], *, number: int, labels: Sequence[str]) -> Markup:
    total = sum(row)
    cells = []
    for column, count in enumerate(row):
        share = count / total if total else 0.0
        right = column == number
        said = "said right" if right else f"taken for {labels[column]}"
        cells.append(
            element(
                "td",
                spaced(count) if count else "",
                title=f"{label}, {said}: {spaced(count)} of {spaced(total)} ({100 * share:.1f} %)",
                style=_shade(share, right=right) if count else None,
            )
        )
    found = f"{100 * row[number] / total:.0f}\u202f%" if total else "–"
    head = element("th", label, scope="row")
    return element("tr", head, *cells, element("td", found, class_="found"))


def _shade(share: float, *, right: bool) -> str:
    """A colour of the page, light or dark as that is, as strong as the share is large."""
    colour = "--plus" if right else "--minus"
    # Half at most, so that the number on it stays readable on both grounds.
    strength = 50 * opacity(share, limit=1.0)
    return f"background:color-mix(in srgb, var({colour}) {strength:.0f}%, transparent)"
