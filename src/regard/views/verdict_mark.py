"""Verdicts as a sign with its words: never a colour or a sign alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from regard.core.study_record import PairVerdict, StudyRecord
from regard.views.markup import Markup, element
from regard.views.study_arms import baseline_of

Question = Literal["method", "models"]
"""What a verdict is about: the method over seeds, or these models on other items."""

NO_CLAIM = "these runs only"
SIGNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "better": ("▲", "better"),
        "worse": ("▼", "worse"),
        "cannot tell apart": ("≈", "apart"),
        NO_CLAIM: ("·", "only"),
    }
)
OPPOSITE = MappingProxyType({"better": "worse", "worse": "better"})


def sign_of(verdict: str) -> str:
    """The sign of a verdict."""
    return SIGNS.get(verdict, ("?", ""))[0]


def verdict_class(verdict: str) -> str:
    """The class that colours it."""
    return f"verdict verdict-{SIGNS.get(verdict, ('?', 'only'))[1]}"


def verdict_mark(verdict: str | None) -> Markup:
    """The sign and the words; a dash where the two were not compared."""
    if verdict is None:
        return element("span", "–")
    return element(
        "span",
        element("span", sign_of(verdict), aria_hidden="true"),
        f" {verdict}",
        class_=verdict_class(verdict),
    )


def verdict_between(
    record: StudyRecord, first: str, second: str, *, holds_for: Question
) -> tuple[str, PairVerdict] | None:
    """What is said of the first arm beside the second, whichever way the pair is kept."""
    for pair in record.verdicts:
        if pair.holds_for != holds_for:
            continue
        if (pair.first, pair.second) == (first, second):
            return pair.verdict, pair
        if (pair.first, pair.second) == (second, first):
            return OPPOSITE.get(pair.verdict, pair.verdict), pair
    return None


def verdict_against(record: StudyRecord, name: str) -> str | None:
    """The verdict on an arm beside the baseline, of the method over seeds."""
    baseline = baseline_of(record)
    if baseline is None:
        return None
    found = verdict_between(record, name, baseline.name, holds_for="method")
    return found[0] if found else None
