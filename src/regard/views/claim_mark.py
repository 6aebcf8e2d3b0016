"""The verdict on a claim as a sign with its words, never a colour or a sign alone."""

from __future__ import annotations

from regard.core.claim_record import ClaimRecord
from regard.views.claim_words import SIGNS, as_expected, verdict_of
from regard.views.markup import Markup, element


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
