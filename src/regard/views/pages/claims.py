"""The page of claims: what came out, by topic; then each of them, wrong statements beside the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from regard.core.records.claim import ClaimRecord, Finding
from regard.views.charts.claim_curves import claim_figure
from regard.views.pages.html import Markup, element, joined, page
from regard.views.text.claims import (
    FAILED,
    NOT_RUN,
    SIGNS,
    as_expected,
    rerun_command,
    summary_line,
    surprises,
    value_text,
    verdict_of,
    why_undecided,
)
from regard.views.text.numbers import duration_text

# The verdict on a claim as a sign with its words, never a colour or a sign alone.


def claim_class(record: ClaimRecord) -> str:
    """The class that colours a verdict: "claim-holds", "claim-holds-if", "claim-fails", "claim-not-run"."""
    return f"claim-{verdict_of(record).replace(' ', '-')}"


def claim_mark(record: ClaimRecord) -> Markup:
    """The sign and the words, and beside them whether it was known to be wrong or is not as expected."""
    verdict = verdict_of(record)
    parts = [element("span", SIGNS[verdict], aria_hidden="true"), f" {verdict}"]
    if verdict == "holds if":
        parts.append(" …")
    mark = [element("b", *parts, class_=claim_class(record))]
    if record.marked_wrong:
        mark.append(element("span", "known to be wrong", class_="tag"))
    if not as_expected(record):
        mark.append(element("span", "not as expected", class_="tag alarm"))
    return element("span", *mark, class_="claim-verdict")


def claim_sign(record: ClaimRecord) -> Markup:
    """The sign alone for the eye, and the words for those who listen."""
    verdict = verdict_of(record)
    return element(
        "span",
        element("span", SIGNS[verdict], aria_hidden="true"),
        element("span", f"{verdict}: ", class_="unseen-text"),
        class_=claim_class(record) + ("" if as_expected(record) else " alarm"),
    )


# One claim on a page: what is said, what came out and why, the picture, the code, and how to run
# it.


PROOFS = {
    "symbolic": "proved in symbols",
    "numeric": "computed in float64",
    "counted": "counted by the counter of operations",
    "measured": "measured",
}
# More than these are folded away.
MOST_FIGURES = 9


def claim_article(record: ClaimRecord) -> Markup:
    """The whole of it, under the anchor of its name."""
    return element(
        "article",
        element("header", claim_mark(record), _heading(record)),
        element("p", record.formula, class_="formula"),
        element("div", _told(record), class_="told-claim"),
        _picture(record),
        element("div", _code(record), _facts(record), class_="behind"),
        id=record.name,
        class_="claim",
        data_verdict=verdict_of(record),
        aria_labelledby=f"{record.name}-statement",
    )


def _heading(record: ClaimRecord) -> Markup:
    return element("h3", record.statement, id=f"{record.name}-statement")


def _told(record: ClaimRecord) -> Markup:
    finding = record.finding
    if finding is None:
        why = why_undecided(record)
        return element("p", f"{why[0].upper()}{why[1:]}", class_="waits")
    parts = [element("p", finding.because)]
    if finding.verdict == "holds if":
        parts.append(_named("It holds if", finding.boundary))
    if finding.verdict == "fails":
        parts.append(_named("Counter-example", finding.counter_example))
    parts.append(_figures(finding))
    return joined(*parts)


def _named(name: str, text: str) -> Markup:
    return element("p", element("b", f"{name}: "), text, class_="deciding")


def _figures(finding: Finding) -> Markup:
    if not finding.figures:
        return Markup("")
    pairs = [
        element("div", element("dt", name.replace("_", " ")), element("dd", value_text(value)))
        for name, value in finding.figures.items()
    ]
    listed = element("dl", *pairs, class_="figures")
    if len(pairs) <= MOST_FIGURES:
        return listed
    return element("details", element("summary", f"All {len(pairs)} figures"), listed)


def _picture(record: ClaimRecord) -> Markup:
    return Markup("") if record.finding is None else claim_figure(record.finding.picture)


def _code(record: ClaimRecord) -> Markup:
    return element(
        "details",
        element("summary", "The lines that decide it"),
        element(
            "pre",
            element("code", record.code),
            tabindex="0",
            role="region",
            aria_label=f"The code that decides {record.name}",
        ),
    )


def _facts(record: ClaimRecord) -> Markup:
    took = "" if record.finding is None else f", in {duration_text(record.seconds)}"
    trained = ", with training" if record.trained else ""
    facts = {
        "again": _command(record),
        "decided": f"{PROOFS.get(record.proof, record.proof)}{trained}{took}",
        "source": record.source,
    }
    pairs = [joined(element("dt", name), element("dd", text)) for name, text in facts.items()]
    return element("dl", *pairs, class_="facts")


def _command(record: ClaimRecord) -> Markup:
    """The command with its settings, which breaks between settings and not inside one."""
    first, *settings = rerun_command(record).split(" --set ")
    words = [first, *(f"--set {setting}" for setting in settings)]
    return element("code", *(element("span", f"{word} ") for word in words), class_="command")


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
