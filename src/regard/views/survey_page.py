"""The page of a survey: a headline, the picture wall, the costs, the conformance matrix."""

from __future__ import annotations

from regard.core.records import Survey
from regard.views.conformance_matrix import conformance_matrix
from regard.views.cost_chart import cost_charts
from regard.views.cost_table import cost_table
from regard.views.markup import Markup, element
from regard.views.page import page
from regard.views.picture_wall import picture_wall

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
