"""The costs as a table, of which one length is shown; a click on a heading sorts it.

Every length has a body of rows for each width of heads. Rows are sorted within their body, so
mechanisms of one width stay together whatever they are sorted by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from regard.core.records import MechanismRecord, Survey
from regard.views.growth import Priced, head_widths, priced_lengths
from regard.views.markup import Markup, element, joined
from regard.views.numbers import factor_text, humanised, spaced

FAVOURITE_LENGTH = 4096

WIDTH_HEADING = "width"
WIDTH_MEANING = "numbers in a query, a key and a value of one head; compare costs of one width only"


class Column(NamedTuple):
    """A heading, what it means, the number to sort by, and how the number is written."""

    heading: str
    meaning: str
    number: Callable[[Priced], float]
    written: Callable[[Priced], str]


def _count(heading: str, meaning: str, number: Callable[[Priced], int]) -> Column:
    return Column(heading, meaning, number, lambda priced: humanised(number(priced)))


COLUMNS = (
    _count(
        "operations",
        "2 for every multiply-add of a matrix product, 1 for every exp, tanh and the like",
        lambda priced: priced.cost.operations,
    ),
    Column(
        "length ×2",
        "by what factor the operations grow when the length doubles: ×2 is linear, ×4 quadratic",
        lambda priced: priced.growth,
        lambda priced: factor_text(priced.growth),
    ),
    _count("memory", "numbers held at the peak of a call", lambda priced: priced.cost.memory),
    _count("parameters", "trainable numbers", lambda priced: priced.cost.parameters),
    _count(
        "state",
        "numbers kept for decoding after so many tokens",
        lambda priced: priced.cost.state,
    ),
    _count(
        "steps",
        "how many steps must wait for one another when everything else is parallel",
        lambda priced: priced.cost.sequential_steps,
    ),
    _count(
        "path",
        "layers until every position can have reached every position it may see",
        lambda priced: priced.cost.longest_path,
    ),
)


def cost_table(survey: Survey) -> Markup:
    """The buttons that choose a length, and the table."""
    table = {
        record.name: {priced.length: priced for priced in priced_lengths(record)}
        for record in survey.mechanisms
    }
    lengths = sorted({length for by_length in table.values() for length in by_length})
    if not lengths:
        return element("p", "No costs were declared for a length and its double.")
    shown = FAVOURITE_LENGTH if FAVOURITE_LENGTH in lengths else lengths[-1]
    bodies = []
    for length in lengths:
        for width in head_widths(survey):
            here = [
                (record, table[record.name][length])
                for record in survey.mechanisms
                if record.cost_width == width and length in table[record.name]
            ]
            most = max((priced.cost.operations for _, priced in here), default=0)
            rows = [_row(record, priced, most=most) for record, priced in here]
            bodies.append(element("tbody", *rows, data_length=length, hidden=length != shown))
    return joined(_choice(lengths, shown=shown), _framed(bodies, shown=shown))


def _choice(lengths: list[int], *, shown: int) -> Markup:
    buttons = [
        element(
            "label",
            element("input", type="radio", name="length", value=length, checked=length == shown),
            element("span", spaced(length)),
        )
        for length in lengths
    ]
    return element("fieldset", element("legend", "tokens"), *buttons, class_="lengths needs-script")


def _framed(bodies: list[Markup], *, shown: int) -> Markup:
    headings = [
        element(
            "th",
            element("button", column.heading, type="button", title=column.meaning),
            scope="col",
        )
        for column in COLUMNS
    ]
    mechanism = element("th", element("button", "mechanism", type="button"), scope="col")
    # Without a button: the rows are in the order of their widths already.
    width = element("th", WIDTH_HEADING, title=WIDTH_MEANING, scope="col")
    caption = element(
        "caption",
        "At ",
        element("b", spaced(shown), id="shown-length"),
        " tokens; the bars are logarithmic, on a scale of its own for each width of heads",
    )
    explained = [(WIDTH_HEADING, WIDTH_MEANING)]
    explained += [(column.heading, column.meaning) for column in COLUMNS]
    meanings = [
        joined(element("dt", heading), element("dd", meaning)) for heading, meaning in explained
    ]
    table = element(
        "table",
        caption,
        element("thead", element("tr", mechanism, width, *headings)),
        *bodies,
        id="costs-table",
    )
    return joined(
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label="Costs"),
        element("dl", *meanings, class_="meanings"),
    )


def _row(record: MechanismRecord, priced: Priced, *, most: int) -> Markup:
    tags = [priced.form] if priced.form else []
    name = element(
        "th",
        element("a", record.name, href=f"#mechanism-{record.name}"),
        *(element("span", tag, class_="tag") for tag in tags),
        scope="row",
        data_sort=record.name,
    )
    cells = [
        element(
            "td",
            column.written(priced),
            data_sort=str(column.number(priced)),
            class_=_growth_class(priced) if column.heading == "length ×2" else None,
            style=_bar(priced, most=most) if column.heading == "operations" else None,
        )
        for column in COLUMNS
    ]
    width = element("td", str(record.cost_width), data_sort=record.cost_width)
    return element("tr", name, width, *cells)


def _bar(priced: Priced, *, most: int) -> str:
    """A bar behind the number, as long as the operations are on a scale of three powers of ten."""
    share = 1 + math.log10(max(priced.cost.operations, 1) / max(most, 1)) / 3
    return f"--share:{max(share, 0.0):.2f}"


def _growth_class(priced: Priced) -> str:
    return "steep" if priced.growth > 3 else "gentle"
