"""Every built-in mechanism passes the conformance suite, with default and other options."""

from __future__ import annotations

from typing import Any

import pytest

from regard.conformance.subject import find_subjects
from regard.conformance.suite import check_subject
from regard.mechanisms import MECHANISMS

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in MECHANISMS),
    ("window", {"radius": 2}),
    ("window", {"radius": 1}),
    ("window", {"radius": 0}),
    ("taylor", {"num_terms": 2}),
    ("taylor", {"num_terms": 4}),
    ("taylor", {"num_terms": 3, "chunk_size": 7}),
    # Near q·k = −constant, sums of high powers are smaller than their rounding error.
    ("polynomial", {"power": 3, "constant": 1000.0}),
    ("polynomial", {"power": 4, "constant": 1000.0}),
    ("polynomial", {"constant": 0.0}),
    ("taylor_window", {"radius": 2}),
]


def _name(part: object) -> str:
    if isinstance(part, dict):
        return ",".join(f"{option}={value}" for option, value in part.items()) or "default"
    return str(part)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, marks=[pytest.mark.stress] if options else [])
        for name, options in VARIANTS
    ],
    ids=_name,
)
def test_the_mechanism_passes_the_suite(name: str, options: dict[str, Any]) -> None:
    (subject,) = find_subjects(name, options=options)
    report = check_subject(subject)
    assert report.passed, "\n".join(record.message() for record in report.failures)
