"""Overview page of all mechanisms: a gallery of attention heatmaps, costs, and the conformance matrix.

The cost table has a body for every length and head width, of which one length is shown. Rows are sorted
within their body, so mechanisms of one head width stay together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from regard.core.records.overview import CheckRecord, MechanismRecord, Outcome, Overview
from regard.views.charts.cost_curves import LengthCost, cost_charts, costs_by_length, head_dims
from regard.views.charts.heatmap import heatmap, legend
from regard.views.pages.html import (
    Markup,
    choice,
    definitions,
    element,
    footer,
    heading,
    joined,
    page,
    row,
    scrolled,
    section,
    table,
    totals,
)
from regard.views.text.numbers import count_text, factor_text, spaced


def gallery(overview: Overview) -> Markup:
    """One card per mechanism with its heatmap; families have a colour each."""
    return element(
        "div",
        *(_card(record, overview) for record in overview.mechanisms),
        class_="gallery",
        style=f"--tokens:{len(overview.tokens)}",
    )


def _card(record: MechanismRecord, overview: Overview) -> Markup:
    mask = "causal" if record.causal else "unmasked"
    options = f"{mask}, {record.weights_options}" if record.weights_options else mask
    family = overview.families.index(record.family)
    return element(
        "article",
        element(
            "header",
            element("span", record.family, class_=f"family family-{family}"),
            element("span", options, class_="mask-note"),
        ),
        element("h3", record.name),
        element("p", record.summary, class_="summary"),
        element("figure", heatmap(record, tokens=overview.tokens)),
        element("p", element("span", class_="pair-text"), legend(record), class_="card-footer"),
        element("p", record.reference, class_="reference"),
        element(
            "details",
            element("summary", "properties"),
            element("ul", *(element("li", phrase) for phrase in record.capabilities)),
        ),
        class_="card",
        id=f"mechanism-{record.name}",
    )


OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "failed"),
    "not_applicable": ("–", "does not apply"),
}

Found = dict[str, dict[str, CheckRecord]]


def conformance_matrix(overview: Overview) -> Markup:
    """Checks against mechanisms; an icon other than ✓ links to its reason below the table."""
    found = _by_check(overview)
    names = [record.name for record in overview.mechanisms]
    headings = [heading(element("span", name)) for name in names]
    rows = [_row(check, by_name, names) for check, by_name in found.items()]
    return joined(
        scrolled(table(["check", *headings], rows, class_="matrix"), "Conformance"),
        _reasons(found, "failed", "Failed checks"),
        _reasons(found, "not_applicable", "Checks that do not apply"),
    )


def _by_check(overview: Overview) -> Found:
    found: Found = {}
    for record in overview.mechanisms:
        for check in record.checks:
            found.setdefault(check.name, {})[record.name] = check
    return found


def _row(check: str, by_name: dict[str, CheckRecord], names: Iterable[str]) -> Markup:
    description = next(iter(by_name.values())).description
    name_and_meaning = joined(element("b", _breakable(check)), element("span", description))
    return row(name_and_meaning, *(_outcome_cell(by_name.get(name), name) for name in names))


def _breakable(name: str) -> Markup:
    """A name with optional line breaks after underscores."""
    words = name.split("_")
    return joined(*(joined(f"{word}_", element("wbr")) for word in words[:-1]), words[-1])


def _outcome_cell(check: CheckRecord | None, name: str) -> Markup:
    if check is None:
        return element("td")
    icon, text = OUTCOMES[check.outcome]
    title = f"{name}, {check.name}: {check.detail or text}"
    if check.outcome == "passed":
        inside = element("span", icon, role="img", aria_label=text, title=title)
    else:
        anchor = f"#{check.outcome}-{check.name}"
        inside = element("a", icon, href=anchor, aria_label=text, title=title)
    return element("td", inside, class_=check.outcome)


def _reasons(found: Found, outcome: Outcome, heading: str) -> Markup:
    """One entry per check with each distinct reason and its mechanisms."""
    entries = []
    for check, by_name in found.items():
        reasons: dict[str, list[str]] = {}
        for name, record in by_name.items():
            if record.outcome == outcome:
                reasons.setdefault(record.detail or "no reason was given", []).append(name)
        if reasons:
            items = [
                element("li", element("b", ", ".join(names)), f": {reason}")
                for reason, names in reasons.items()
            ]
            term = element("dt", check, id=f"{outcome}-{check}")
            entries.append(element("div", term, element("dd", element("ul", *items))))
    if not entries:
        return Markup("")
    return joined(element("h3", heading), element("dl", *entries, class_=f"reasons {outcome}"))


DEFAULT_LENGTH = 4096


WIDTH_MEANING = (
    "size of a query, key and value of one head; compare costs of the same head_dim only"
)


class Column(NamedTuple):
    """Heading, its meaning, the value to sort by, and the text of a cell."""

    heading: str
    meaning: str
    number: Callable[[LengthCost], float]
    text: Callable[[LengthCost], str]


def _count(heading: str, meaning: str, number: Callable[[LengthCost], int]) -> Column:
    return Column(heading, meaning, number, lambda cost: count_text(number(cost)))


COLUMNS = (
    _count(
        "FLOPs",
        "2 per multiply-add of a matmul, 1 per transcendental operation",
        lambda cost: cost.cost.flops,
    ),
    Column(
        "length ×2",
        "growth of the FLOPs when the length doubles: ×2 is linear, ×4 quadratic",
        lambda cost: cost.doubling_factor,
        lambda cost: factor_text(cost.doubling_factor),
    ),
    _count("memory", "peak number of elements during a call", lambda cost: cost.cost.memory),
    _count("parameters", "trainable parameters", lambda cost: cost.cost.parameters),
    _count(
        "state",
        "elements of the decoding state after this many tokens",
        lambda cost: cost.cost.state,
    ),
    _count(
        "steps",
        "sequential steps with unlimited parallelism",
        lambda cost: cost.cost.sequential_steps,
    ),
    _count(
        "path",
        "maximum path length: layers until every position can reach every position it may attend to",
        lambda cost: cost.cost.max_path_length,
    ),
)


def cost_table(overview: Overview) -> Markup:
    """Cost table with radio buttons for the length."""
    costs = {
        record.name: {cost.length: cost for cost in costs_by_length(record)}
        for record in overview.mechanisms
    }
    lengths = sorted({length for by_length in costs.values() for length in by_length})
    if not lengths:
        return element("p", "No costs were declared for a length and its double.")
    shown = DEFAULT_LENGTH if DEFAULT_LENGTH in lengths else lengths[-1]
    bodies = []
    for length in lengths:
        for width in head_dims(overview):
            here = [
                (record, costs[record.name][length])
                for record in overview.mechanisms
                if record.cost_head_dim == width and length in costs[record.name]
            ]
            most = max((each.cost.flops for _, each in here), default=0)
            rows = [_cost_row(record, cost, most=most) for record, cost in here]
            bodies.append(element("tbody", *rows, data_length=length, hidden=length != shown))
    texts = {length: spaced(length) for length in lengths}
    buttons = choice("tokens", texts, name="length", checked=shown, class_="lengths")
    return joined(buttons, _framed(bodies, shown=shown))


def _framed(bodies: list[Markup], *, shown: int) -> Markup:
    headings = [
        heading(element("button", column.heading, type="button", title=column.meaning))
        for column in COLUMNS
    ]
    mechanism = heading(element("button", "mechanism", type="button"))
    # Not sortable: rows are grouped by head_dim.
    width = heading("head_dim", title=WIDTH_MEANING)
    caption = element(
        "caption",
        "At ",
        element("b", spaced(shown), id="shown-length"),
        " tokens; the bars are logarithmic, with one scale per head_dim",
    )
    explained = [("head_dim", WIDTH_MEANING)]
    explained += [(column.heading, column.meaning) for column in COLUMNS]
    head = element("thead", element("tr", mechanism, width, *headings))
    costs = element("table", caption, head, *bodies, id="costs-table")
    return joined(scrolled(costs, "Costs"), definitions(explained))


def _cost_row(record: MechanismRecord, cost: LengthCost, *, most: int) -> Markup:
    link = element("a", record.name, href=f"#mechanism-{record.name}")
    tag = element("span", cost.form, class_="tag") if cost.form else ""
    name = element("th", link, tag, scope="row", data_sort=record.name)
    growth = "steep" if cost.doubling_factor > 3 else "gentle"
    cells = [
        element(
            "td",
            column.text(cost),
            data_sort=str(column.number(cost)),
            class_=growth if column.heading == "length ×2" else None,
            style=_bar(cost, most=most) if column.heading == "FLOPs" else None,
        )
        for column in COLUMNS
    ]
    width = element("td", str(record.cost_head_dim), data_sort=record.cost_head_dim)
    return element("tr", name, width, *cells)


def _bar(cost: LengthCost, *, most: int) -> str:
    """A bar behind the number, on a logarithmic scale of three powers of ten."""
    length = 1 + math.log10(max(cost.cost.flops, 1) / max(most, 1)) / 3
    return f"--share:{max(length, 0.0):.2f}"


SECTIONS = {"gallery": "Attention patterns", "costs": "Costs", "checks": "Conformance checks"}


def overview_page(overview: Overview) -> str:
    """The overview as self-contained HTML."""
    main = element("main", _gallery_section(overview), _costs(overview), _checks(overview))
    foot = footer(f"regard {overview.version}, seed {overview.seed}.")
    body = [_headline(overview), main, foot]
    return page(title="regard: every attention mechanism", body=body)


def _headline(overview: Overview) -> Markup:
    outcomes = overview.totals()
    numbers = {
        "mechanisms": len(overview.mechanisms),
        "checks passed": outcomes["passed"],
        "failed": outcomes["failed"],
        "do not apply": outcomes["not_applicable"],
    }
    links = [element("a", text, href=f"#{anchor}") for anchor, text in SECTIONS.items()]
    return element(
        "header",
        element("h1", "regard"),
        element(
            "p",
            "An attention workbench: build, train, compare, inspect and cost attention mechanisms.",
            class_="lead",
        ),
        totals(numbers, alarm="failed"),
        element("nav", *links, aria_label="Sections"),
        class_="headline",
    )


def _gallery_section(overview: Overview) -> Markup:
    sentence = element("q", " ".join(overview.tokens))
    return section(
        "gallery",
        SECTIONS["gallery"],
        element(
            "p",
            "Attention weights of each word (row) over each word (column) of ",
            sentence,
            ". Nothing is trained: queries and keys are the same vectors, computed from the letters of the "
            "words, so that similar words have similar vectors, and parameters are randomly initialised. "
            "The maps show the inductive bias of each mechanism.",
        ),
        element(
            "p",
            "Hover over a cell, or use the arrow keys, to highlight the same pair in every heatmap.",
            class_="needs-script hint",
        ),
        gallery(overview),
    )


def _costs(overview: Overview) -> Markup:
    narrow = [
        record for record in overview.mechanisms if record.cost_head_dim < overview.max_head_dim
    ]
    width_note = ""
    if narrow:
        width_note = (
            f" These use narrower heads, since their feature maps grow with head_dim: "
            f"{', '.join(record.name for record in narrow)}. Narrow heads cost less for any mechanism, so "
            "each head_dim has its own chart; compare only within one."
        )
    return section(
        "costs",
        SECTIONS["costs"],
        element(
            "p",
            f"Causal self-attention with {overview.num_heads} heads of head_dim {overview.max_head_dim}, "
            "one sequence, forward pass only, without projections. These are declared costs; the "
            f"conformance checks below compare them with measured ones.{width_note}",
        ),
        cost_charts(overview),
        cost_table(overview),
    )


def _checks(overview: Overview) -> Markup:
    return section(
        "checks",
        SECTIONS["checks"],
        element(
            "p",
            "Every mechanism runs the same checks. A dash means that a check does not apply; the reason is "
            "below the table.",
        ),
        conformance_matrix(overview),
    )
