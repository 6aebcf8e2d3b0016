"""Items that some arms get right and others wrong: who wrote what, the same outputs together."""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.study_record import Disagreement, StudyRecord
from regard.views.markup import Markup, element, joined
from regard.views.study_arms import arm_label, counted

SHOWN = 10


def disagreement_table(record: StudyRecord) -> Markup:
    """The first items; the others are opened on demand."""
    first, rest = record.disagreements[:SHOWN], record.disagreements[SHOWN:]
    if not first:
        return Markup("")
    more = Markup("")
    if rest:
        summary = element("summary", f"{counted(len(rest), 'item')} more")
        more = element("details", summary, _table(record, rest))
    return joined(_table(record, first), more)


def _table(record: StudyRecord, items: Sequence[Disagreement]) -> Markup:
    headings = [element("th", text, scope="col") for text in ("source", "right", "written by")]
    return element(
        "table",
        element("thead", element("tr", *headings)),
        element("tbody", *(_row(record, item) for item in items)),
        class_="cards items",
    )


def _row(record: StudyRecord, item: Disagreement) -> Markup:
    answers = [element("span", answer, class_="output") for answer in item.answers]
    return element(
        "tr",
        element("th", item.source, scope="row"),
        element("td", *_between(answers, " or "), data_label="right"),
        element("td", element("ul", *_outputs(record, item))),
    )


def _outputs(record: StudyRecord, item: Disagreement) -> list[Markup]:
    """A line for each output, the right ones first, then those that most arms wrote."""
    writers: dict[tuple[bool, str], list[str]] = {}
    for arm, output in item.predicted.items():
        writers.setdefault((arm in item.right, output), []).append(arm)
    ordered = sorted(writers.items(), key=lambda each: (not each[0][0], -len(each[1])))
    return [
        element(
            "li",
            element(
                "span",
                element("span", "✓" if is_right else "✗", aria_hidden="true"),
                element("span", "right:" if is_right else "wrong:", class_="unseen-text"),
                class_="right" if is_right else "wrong",
            ),
            element("span", output or "(nothing)", class_="output"),
            element(
                "span",
                *(arm_label(record, arm) for arm in arms),
                class_="writers",
            ),
        )
        for (is_right, output), arms in ordered
    ]


def _between(parts: Sequence[Markup], text: str) -> list[str]:
    return [piece for part in parts for piece in (part, text)][:-1]
