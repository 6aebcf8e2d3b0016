"""The page of claims: what came out, by topic; then each of them, wrong statements beside the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from regard.core.claim_record import ClaimRecord
from regard.views.claim_article import claim_article
from regard.views.claim_mark import claim_sign
from regard.views.claim_words import FAILED, NOT_RUN, SIGNS, summary_line, surprises, verdict_of
from regard.views.markup import Markup, element
from regard.views.page import page

WORDS = {
    "holds": "hold",
    "holds if": "hold if …",
    "fails": "fail",
    NOT_RUN: NOT_RUN,
    FAILED: FAILED,
}


def claim_page(records: Sequence[ClaimRecord]) -> str:
    """The text of an HTML file that shows all the records, in their order."""
    topics = by_topic(records)
    main = element("main", *(_section(topic, found) for topic, found in topics.items()))
    foot = element("footer", element("p", "Made by regard. One file, and it fetches nothing."))
    body = [_headline(records), _contents(topics), main, foot]
    return page(title="regard: statements about attention, run", body=body, kind="claims")


def by_topic(records: Sequence[ClaimRecord]) -> dict[str, list[ClaimRecord]]:
    """The records of each topic, in the order in which topics and records come."""
    topics: dict[str, list[ClaimRecord]] = {}
    for record in records:
        topics.setdefault(record.topic, []).append(record)
    return topics


def beside(records: Sequence[ClaimRecord]) -> list[list[ClaimRecord]]:
    """Each statement with the wrong ones that follow it: they are shown next to each other."""
    groups: list[list[ClaimRecord]] = []
    for record in records:
        if record.marked_wrong and groups:
            groups[-1].append(record)
        else:
            groups.append([record])
    return groups


def _headline(records: Sequence[ClaimRecord]) -> Markup:
    counts = Counter(verdict_of(record) for record in records)
    found = surprises(records)
    tiles = [_tile("statements", len(records))]
    tiles += [_tile(word, counts[verdict]) for verdict, word in WORDS.items() if counts[verdict]]
    tiles.append(_tile("not as expected", len(found), alarm=bool(found)))
    return element(
        "header",
        element("p", "regard claims", class_="kicker"),
        element("h1", "Statements about attention, run"),
        element(
            "p",
            "Each statement is code that decides it. Some are known to be wrong; they stand beside "
            "the right ones, and must fail.",
            class_="lead",
        ),
        element("dl", *tiles, class_="totals"),
        element("p", summary_line(records), class_="hint"),
        class_="headline",
    )


def _tile(word: str, number: int, *, alarm: bool = False) -> Markup:
    shown = element("dt", word), element("dd", str(number))
    return element("div", *shown, class_="alarm" if alarm else None)


def _contents(topics: dict[str, list[ClaimRecord]]) -> Markup:
    blocks = []
    for topic, records in topics.items():
        items = [
            element(
                "li",
                claim_sign(record),
                element("a", record.statement, href=f"#{record.name}"),
                data_verdict=verdict_of(record),
            )
            for record in records
        ]
        title = element("h3", element("a", topic, href=f"#{_anchor(topic)}"))
        blocks.append(element("section", title, element("ol", *items)))
    return element(
        "nav",
        element("h2", "What came out"),
        _filter(topics),
        element("div", *blocks, class_="topics"),
        class_="contents",
        aria_label="Statements by topic",
    )


def _filter(topics: dict[str, list[ClaimRecord]]) -> Markup:
    there = {verdict_of(record) for records in topics.values() for record in records}
    choices = [("", "all"), *((v, f"{SIGNS[v]} {WORDS[v]}") for v in WORDS if v in there)]
    labels = [
        element(
            "label",
            element("input", type="radio", name="verdict", value=value, checked=not value),
            element("span", word),
        )
        for value, word in choices
    ]
    return element("fieldset", element("legend", "show"), *labels, class_="ways needs-script")


def _section(topic: str, records: Sequence[ClaimRecord]) -> Markup:
    groups = [
        element(
            "div",
            *(claim_article(record) for record in group),
            class_="beside" if len(group) > 1 else "alone",
        )
        for group in beside(records)
    ]
    anchor = _anchor(topic)
    heading = element("h2", topic, id=f"{anchor}-heading")
    return element(
        "section", heading, *groups, id=anchor, aria_labelledby=f"{anchor}-heading", class_="topic"
    )


def _anchor(topic: str) -> str:
    # Names of claims have no such beginning, so that no two places of the page are called alike.
    return f"topic-{'-'.join(topic.split())}"
