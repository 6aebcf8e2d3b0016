"""All pairs of a study at once, for one of its two questions: who is better than whom."""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.study_record import StudyRecord
from regard.views.markup import Markup, element, joined
from regard.views.study_arms import (
    arm_label,
    p_text,
    score_decimals,
    score_text,
    scored,
    shortened_name,
)
from regard.views.verdict_mark import Question, sign_of, verdict_between, verdict_class

LONGEST_HEADING = 26


def pair_matrix(record: StudyRecord, *, holds_for: Question) -> Markup:
    """A row and a column an arm, the best first; a sign in each cell, and its words for whoever asks."""
    arms = [arm.name for arm in scored(record)]
    heads = [
        element(
            "th", element("span", shortened_name(name, LONGEST_HEADING), title=name), scope="col"
        )
        for name in arms
    ]
    rows = []
    for first in arms:
        cells = [_cell(record, first, second, holds_for=holds_for) for second in arms]
        rows.append(element("tr", element("th", arm_label(record, first), scope="row"), *cells))
    keys = {"better": "▲ better", "worse": "▼ worse", "cannot tell apart": "≈ cannot tell apart"}
    legend = [
        element("span", text, class_=verdict_class(verdict)) for verdict, text in keys.items()
    ]
    words = element(
        "p",
        "Each row’s arm beside each column’s: ",
        *_spaced(legend),
        ".",
        class_="hint matrix-key",
    )
    table = element(
        "table",
        element("thead", element("tr", element("td", "row is …"), *heads)),
        element("tbody", *rows),
        class_="matrix verdicts",
    )
    scrolled = element(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label="All pairs"
    )
    return joined(words, scrolled)


def _spaced(parts: Sequence[Markup]) -> list[str]:
    return [piece for part in parts for piece in (part, ", ")][:-1]


def _cell(record: StudyRecord, first: str, second: str, *, holds_for: Question) -> Markup:
    if first == second:
        return element("td", class_="same")
    found = verdict_between(record, first, second, holds_for=holds_for)
    if found is None:
        return element("td", element("span", "not compared", class_="unseen-text"))
    verdict, pair = found
    said = f"{first} beside {second}: {verdict}"
    decimals = score_decimals(record)
    way = 1 if pair.first == first else -1
    difference = score_text(way * pair.difference, decimals=decimals, signed=True)
    return element(
        "td",
        element("span", sign_of(verdict), aria_hidden="true"),
        element("span", said, class_="unseen-text"),
        class_=verdict_class(verdict),
        title=f"{said}, difference {difference}, p {p_text(pair.adjusted_p)}",
    )
