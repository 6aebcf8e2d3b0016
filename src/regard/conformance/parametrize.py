"""Each check of a mechanism as one pytest test.

    from regard.conformance import parametrize_checks

    @parametrize_checks(MyAttention)
    def test_my_attention(check):
        check()

A check that does not apply is skipped with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from regard.conformance.subjects import Subject, subject_of
from regard.conformance.suite import run_check
from regard.conformance.table import CHECKS
from regard.core.mechanism import Mechanism
from regard.core.names import look_up


@dataclass(frozen=True)
class BoundCheck:
    """One check of one mechanism; calling it passes, skips or fails the test."""

    subject: Subject
    check: str
    seed: int

    def __call__(self) -> None:
        """Run the check."""
        __tracebackhide__ = True
        record = run_check(self.subject, self.check, seed=self.seed)
        if record.outcome == "not_applicable":
            pytest.skip(record.detail)
        if record.outcome == "failed":
            pytest.fail(record.message(), pytrace=False)


def parametrize_checks(
    build: type[Mechanism] | Callable[..., Mechanism],
    *,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
    seed: int = 0,
) -> pytest.MarkDecorator:
    """Run a test that takes `check` once for every check. Arguments as for `check_mechanism`."""
    subject = subject_of(build, name=name, options=options)
    names = tuple(only) or tuple(CHECKS)
    for chosen in names:
        look_up("check", chosen, CHECKS)
    checks = [pytest.param(BoundCheck(subject, chosen, seed), id=chosen) for chosen in names]
    return pytest.mark.parametrize("check", checks)
