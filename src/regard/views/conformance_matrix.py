"""Every check against every mechanism: a mark in a table, and the reasons in words below it."""

from __future__ import annotations

from collections.abc import Iterable

from regard.core.records import CheckRecord, Outcome, Survey
from regard.views.markup import Markup, element, joined

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
