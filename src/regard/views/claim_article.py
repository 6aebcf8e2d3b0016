"""One claim on a page: what is said, what came out and why, the picture, the code, and how to run it."""

from __future__ import annotations

from regard.core.claim_record import ClaimRecord, Finding
from regard.views.claim_figure import claim_figure
from regard.views.claim_mark import claim_mark
from regard.views.claim_words import rerun_command, value_text, verdict_of, why_undecided
from regard.views.markup import Markup, element, joined
from regard.views.numbers import duration_text

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
