"""Claims page: an index by topic, then every claim with its figure, values and code.

Claims that are known to be false are shown beside the correct ones. Verdicts have an icon and text,
never a colour alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from regard.core.records.claim import ClaimRecord, Finding
from regard.views.charts.claim_curves import claim_figure
from regard.views.pages.html import Markup, choice, element, footer, joined, page, totals
from regard.views.text.claims import (
    FAILED,
    ICONS,
    NOT_RUN,
    is_expected,
    rerun_command,
    summary_line,
    undecided_reason,
    unexpected,
    value_text,
    verdict_of,
)
from regard.views.text.numbers import duration_text


def claim_class(record: ClaimRecord) -> str:
    """CSS class of a verdict: "claim-holds", "claim-holds-if", "claim-fails" or "claim-not-run"."""
    return f"claim-{verdict_of(record).replace(' ', '-')}"


def claim_badge(record: ClaimRecord) -> Markup:
    """The verdict, with tags for claims that are known to be false or not as expected."""
    verdict = verdict_of(record)
    parts = [element("span", ICONS[verdict], aria_hidden="true"), f" {verdict}"]
    if verdict == "holds if":
        parts.append(" …")
    badge = [element("b", *parts, class_=claim_class(record))]
    if record.known_false:
        badge.append(element("span", "known to be false", class_="tag"))
    if not is_expected(record):
        badge.append(element("span", "not as expected", class_="tag alarm"))
    return element("span", *badge, class_="claim-verdict")


def claim_icon(record: ClaimRecord) -> Markup:
    """The icon of the verdict, with text for screen readers."""
    verdict = verdict_of(record)
    return element(
        "span",
        element("span", ICONS[verdict], aria_hidden="true"),
        element("span", f"{verdict}: ", class_="visually-hidden"),
        class_=claim_class(record) + ("" if is_expected(record) else " alarm"),
    )


PROOFS = {
    "symbolic": "proved symbolically",
    "numeric": "computed in float64",
    "counted": "counted by the FLOP counter",
    "measured": "measured",
}
# Longer lists of values are collapsed.
MAX_VALUES = 9


def claim_article(record: ClaimRecord) -> Markup:
    """One claim, with its name as anchor."""
    return element(
        "article",
        element("header", claim_badge(record), _heading(record)),
        element("p", record.formula, class_="formula"),
        element("div", _finding(record), class_="claim-reasons"),
        _figure(record),
        element("div", _code(record), _facts(record), class_="claim-details"),
        id=record.name,
        class_="claim",
        data_verdict=verdict_of(record),
        aria_labelledby=f"{record.name}-statement",
    )


def _heading(record: ClaimRecord) -> Markup:
    return element("h3", record.statement, id=f"{record.name}-statement")


def _finding(record: ClaimRecord) -> Markup:
    finding = record.finding
    if finding is None:
        why = undecided_reason(record)
        return element("p", f"{why[0].upper()}{why[1:]}", class_="not-run")
    parts = [element("p", finding.reason)]
    if finding.verdict == "holds if":
        parts.append(_named("It holds if", finding.condition))
    if finding.verdict == "fails":
        parts.append(_named("Counter-example", finding.counter_example))
    parts.append(_values(finding))
    return joined(*parts)


def _named(name: str, text: str) -> Markup:
    return element("p", element("b", f"{name}: "), text, class_="deciding")


def _values(finding: Finding) -> Markup:
    if not finding.values:
        return Markup("")
    pairs = [
        element("div", element("dt", name.replace("_", " ")), element("dd", value_text(value)))
        for name, value in finding.values.items()
    ]
    listed = element("dl", *pairs, class_="figures")
    if len(pairs) <= MAX_VALUES:
        return listed
    return element("details", element("summary", f"All {len(pairs)} values"), listed)


def _figure(record: ClaimRecord) -> Markup:
    return Markup("") if record.finding is None else claim_figure(record.finding.figure)


def _code(record: ClaimRecord) -> Markup:
    return element(
        "details",
        element("summary", "Code"),
        element(
            "pre",
            element("code", record.code),
            tabindex="0",
            role="region",
            aria_label=f"Code of {record.name}",
        ),
    )


def _facts(record: ClaimRecord) -> Markup:
    took = "" if record.finding is None else f", in {duration_text(record.seconds)}"
    trained = ", with training" if record.trained else ""
    facts = {
        "command": _command(record),
        "method": f"{PROOFS.get(record.proof, record.proof)}{trained}{took}",
        "source": record.source,
    }
    pairs = [joined(element("dt", name), element("dd", text)) for name, text in facts.items()]
    return element("dl", *pairs, class_="facts")


def _command(record: ClaimRecord) -> Markup:
    """The command, with line breaks only between settings."""
    first, *settings = rerun_command(record).split(" --set ")
    parts = [first, *(f"--set {setting}" for setting in settings)]
    return element("code", *(element("span", f"{part} ") for part in parts), class_="command")


TILE_NAMES = {
    "holds": "hold",
    "holds if": "hold if …",
    "fails": "fail",
    NOT_RUN: NOT_RUN,
    FAILED: FAILED,
}


def claim_page(records: Sequence[ClaimRecord]) -> str:
    """All claims as self-contained HTML, in the given order."""
    topics = by_topic(records)
    main = element("main", *(_section(topic, found) for topic, found in topics.items()))
    body = [_headline(records), _contents(topics), main, footer("Made by regard.")]
    return page(title="regard: claims about attention, tested", body=body, kind="claims")


def by_topic(records: Sequence[ClaimRecord]) -> dict[str, list[ClaimRecord]]:
    """Records by topic, in order of appearance."""
    topics: dict[str, list[ClaimRecord]] = {}
    for record in records:
        topics.setdefault(record.topic, []).append(record)
    return topics


def with_false_claims(records: Sequence[ClaimRecord]) -> list[list[ClaimRecord]]:
    """Groups of a claim and the known-false ones that follow it, which are shown side by side."""
    groups: list[list[ClaimRecord]] = []
    for record in records:
        if record.known_false and groups:
            groups[-1].append(record)
        else:
            groups.append([record])
    return groups


def _headline(records: Sequence[ClaimRecord]) -> Markup:
    counts = Counter(verdict_of(record) for record in records)

    numbers = {"claims": len(records)}
    numbers |= {name: counts[verdict] for verdict, name in TILE_NAMES.items() if counts[verdict]}
    numbers["not as expected"] = len(unexpected(records))
    return element(
        "header",
        element("p", "regard claims", class_="kicker"),
        element("h1", "Claims about attention, tested"),
        element(
            "p",
            "Each claim is decided by code. Some are known to be false; they are shown beside the "
            "correct ones and must fail.",
            class_="lead",
        ),
        totals(numbers, alarm="not as expected"),
        element("p", summary_line(records), class_="hint"),
        class_="headline",
    )


def _contents(topics: dict[str, list[ClaimRecord]]) -> Markup:
    blocks = []
    for topic, records in topics.items():
        items = [
            element(
                "li",
                claim_icon(record),
                element("a", record.statement, href=f"#{record.name}"),
                data_verdict=verdict_of(record),
            )
            for record in records
        ]
        title = element("h3", element("a", topic, href=f"#{_anchor(topic)}"))
        blocks.append(element("section", title, element("ol", *items)))
    return element(
        "nav",
        element("h2", "Results"),
        _filter(topics),
        element("div", *blocks, class_="topics"),
        class_="contents",
        aria_label="Claims by topic",
    )


def _filter(topics: dict[str, list[ClaimRecord]]) -> Markup:
    present = {verdict_of(record) for records in topics.values() for record in records}
    verdicts = {v: f"{ICONS[v]} {name}" for v, name in TILE_NAMES.items() if v in present}
    return choice("show", {"": "all", **verdicts}, name="verdict")


def _section(topic: str, records: Sequence[ClaimRecord]) -> Markup:
    groups = [
        element(
            "div",
            *(claim_article(record) for record in group),
            class_="paired" if len(group) > 1 else "single",
        )
        for group in with_false_claims(records)
    ]
    anchor = _anchor(topic)
    heading = element("h2", topic, id=f"{anchor}-heading")
    return element(
        "section", heading, *groups, id=anchor, aria_labelledby=f"{anchor}-heading", class_="topic"
    )


def _anchor(topic: str) -> str:
    # The prefix avoids clashes with the names of claims.
    return f"topic-{'-'.join(topic.split())}"
