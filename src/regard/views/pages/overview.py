"""The page of a survey: a headline, the picture wall, the costs, the conformance matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from regard.core.records.overview import CheckRecord, MechanismRecord, Outcome, Survey
from regard.views.charts.cost_curves import Priced, cost_charts, head_widths, priced_lengths
from regard.views.charts.heatmap import heatmap, legend
from regard.views.pages.html import Markup, element, joined, page
from regard.views.text.numbers import factor_text, humanised, spaced

# One card a mechanism: what it is, and the heat map of what it reads in the sentence.


def picture_wall(survey: Survey) -> Markup:
    """The cards in the order of the survey; a family has a colour."""
    return element(
        "div",
        *(_card(record, survey) for record in survey.mechanisms),
        class_="wall",
        style=f"--tokens:{len(survey.tokens)}",
    )


def _card(record: MechanismRecord, survey: Survey) -> Markup:
    mask = "causal" if record.causal else "unmasked"
    drawn = f"{mask}, {record.weights_options}" if record.weights_options else mask
    family = survey.families.index(record.family)
    return element(
        "article",
        element(
            "header",
            element("span", record.family, class_=f"family family-{family}"),
            element("span", drawn, class_="drawn"),
        ),
        element("h3", record.name),
        element("p", record.summary, class_="summary"),
        element("figure", heatmap(record, tokens=survey.tokens)),
        element("p", element("span", class_="pair-text"), legend(record), class_="under"),
        element("p", record.reference, class_="reference"),
        element(
            "details",
            element("summary", "what it promises"),
            element("ul", *(element("li", phrase) for phrase in record.capabilities)),
        ),
        class_="card",
        id=f"mechanism-{record.name}",
    )


# Every check against every mechanism: a mark in a table, and the reasons in words below it.


MARKS: dict[Outcome, tuple[str, str]] = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "failed"),
    "not_applicable": ("–", "does not apply"),
}

Found = dict[str, dict[str, CheckRecord]]


def conformance_matrix(survey: Survey) -> Markup:
    """The matrix; a mark other than ✓ is a link to its reason."""
    found = _by_check(survey)
    names = [record.name for record in survey.mechanisms]
    heading = [element("th", element("span", name), scope="col") for name in names]
    rows = [_row(check, by_name, names) for check, by_name in found.items()]
    table = element(
        "table",
        element("thead", element("tr", element("th", "check", scope="col"), *heading)),
        element("tbody", *rows),
        class_="matrix",
    )
    return joined(
        element(
            "div", table, class_="scroll", tabindex="0", role="region", aria_label="Conformance"
        ),
        _reasons(found, "failed", "What failed"),
        _reasons(found, "not_applicable", "Why a check does not apply"),
    )


def _by_check(survey: Survey) -> Found:
    found: Found = {}
    for record in survey.mechanisms:
        for check in record.checks:
            found.setdefault(check.name, {})[record.name] = check
    return found


def _row(check: str, by_name: dict[str, CheckRecord], names: Iterable[str]) -> Markup:
    demands = next(iter(by_name.values())).demands
    heading = element("th", element("b", _breakable(check)), element("span", demands), scope="row")
    return element("tr", heading, *(_mark(by_name.get(name), name) for name in names))


def _breakable(name: str) -> Markup:
    """A name that a narrow page may break after an underscore."""
    words = name.split("_")
    return joined(*(joined(f"{word}_", element("wbr")) for word in words[:-1]), words[-1])


def _mark(check: CheckRecord | None, name: str) -> Markup:
    if check is None:
        return element("td")
    sign, word = MARKS[check.outcome]
    title = f"{name}, {check.name}: {check.detail or word}"
    if check.outcome == "passed":
        inside = element("span", sign, role="img", aria_label=word, title=title)
    else:
        inside = element("a", sign, href=f"#{_anchor(check)}", aria_label=word, title=title)
    return element("td", inside, class_=check.outcome)


def _anchor(check: CheckRecord) -> str:
    return f"{check.outcome}-{check.name}"


def _reasons(found: Found, outcome: Outcome, heading: str) -> Markup:
    """A paragraph a check, with each distinct reason and the mechanisms it holds for."""
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


# The costs as a table, of which one length is shown; a click on a heading sorts it.
#
# Every length has a body of rows for each width of heads. Rows are sorted within their body, so
# mechanisms of one width stay together whatever they are sorted by.


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
            rows = [_cost_row(record, priced, most=most) for record, priced in here]
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


def _cost_row(record: MechanismRecord, priced: Priced, *, most: int) -> Markup:
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


SECTIONS = {"pictures": "What it reads", "costs": "What it costs", "checks": "What holds"}


def survey_page(survey: Survey) -> str:
    """The text of an HTML file that shows all of a survey."""
    main = element("main", _pictures(survey), _costs(survey), _checks(survey))
    return page(
        title="regard: every attention mechanism", body=[_headline(survey), main, _foot(survey)]
    )


def _headline(survey: Survey) -> Markup:
    totals = survey.totals()
    numbers = {
        "mechanisms": len(survey.mechanisms),
        "checks passed": totals["passed"],
        "failed": totals["failed"],
        "do not apply": totals["not_applicable"],
    }
    tiles = [
        element("div", element("dt", word), element("dd", str(number)), class_=_tile(word, number))
        for word, number in numbers.items()
    ]
    links = [element("a", text, href=f"#{anchor}") for anchor, text in SECTIONS.items()]
    return element(
        "header",
        element("h1", "regard"),
        element(
            "p",
            "A workbench for attention: build, check, price and look into attention mechanisms, on "
            "evidence.",
            class_="lead",
        ),
        element("dl", *tiles, class_="totals"),
        element("nav", *links, aria_label="Sections"),
        class_="headline",
    )


def _tile(word: str, number: int) -> str | None:
    return "alarm" if word == "failed" and number else None


def _section(anchor: str, *content: Markup) -> Markup:
    heading = element("h2", SECTIONS[anchor], id=f"{anchor}-heading")
    return element("section", heading, *content, id=anchor, aria_labelledby=f"{anchor}-heading")


def _pictures(survey: Survey) -> Markup:
    sentence = element("q", " ".join(survey.tokens))
    return _section(
        "pictures",
        element(
            "p",
            "How much each word (row) reads of each word (column) of ",
            sentence,
            ". Nothing is trained: queries and keys are the same vectors, made of the words’ "
            "letters, so equal words are equal and similar words similar, and parameters are fresh "
            "from their random start. You see what a mechanism brings along by construction.",
        ),
        element(
            "p",
            "Point at a cell, or move with the arrow keys, and every picture marks the same pair.",
            class_="needs-script hint",
        ),
        picture_wall(survey),
    )


def _costs(survey: Survey) -> Markup:
    narrow = [record for record in survey.mechanisms if record.cost_width < survey.usual_width]
    width_note = ""
    if narrow:
        width_note = (
            f" Where features multiply with the width, heads are narrower: "
            f"{', '.join(record.name for record in narrow)}. A narrow head is cheaper whatever the "
            "mechanism, so each width has a chart of its own; compare within one, not across."
        )
    return _section(
        "costs",
        element(
            "p",
            f"Causal self-attention in {survey.num_heads} heads of width {survey.usual_width}, one "
            "sequence, forward only, without the projections around it. These are the costs that "
            "the mechanisms declare; the checks below hold them to what a counter measures."
            f"{width_note}",
        ),
        cost_charts(survey),
        cost_table(survey),
    )


def _checks(survey: Survey) -> Markup:
    return _section(
        "checks",
        element(
            "p",
            "Every mechanism goes through the same checks. A dash means that a check is about "
            "something the mechanism does not claim; the reason is in the text below the table.",
        ),
        conformance_matrix(survey),
    )


def _foot(survey: Survey) -> Markup:
    return element(
        "footer",
        element(
            "p",
            f"regard {survey.version}, seed {survey.seed}. One file, and it fetches nothing.",
        ),
    )
