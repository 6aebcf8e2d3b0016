"""Every check fails on a mechanism that is broken in that respect, and passes on correct ones."""

from __future__ import annotations

import pytest
from tests.conformance.broken.sound import SOUND
from tests.conformance.broken.table import CAUGHT_BY

from regard.conformance import CHECKS, check_mechanism
from regard.core.mechanism import Mechanism


@pytest.mark.stress
@pytest.mark.parametrize("kind", SOUND, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_correct_mechanism_passes(kind: type[Mechanism], seed: int) -> None:
    report = check_mechanism(kind, seed=seed)
    assert report.passed, "\n".join(record.message() for record in report.failures)


@pytest.mark.stress
@pytest.mark.parametrize(("kind", "check"), CAUGHT_BY.items(), ids=str)
@pytest.mark.parametrize("seed", [3])
def test_a_broken_mechanism_fails_its_check(kind: type[Mechanism], check: str, seed: int) -> None:
    report = check_mechanism(kind, only=[check], seed=seed)
    assert len(report.failures) == 1, f"{kind.__name__} passes: {report.as_text()}"
    (failure,) = report.failures
    assert failure.message().startswith(f"{kind.__name__} fails {check} (seed {seed}): ")
    assert failure.detail
    assert f"only=['{check}'], seed={seed}" in failure.command


def test_every_check_has_a_broken_mechanism() -> None:
    assert set(CAUGHT_BY.values()) == set(CHECKS)


def test_an_exception_inside_a_mechanism_is_a_failure_with_its_type() -> None:
    kind = next(kind for kind in CAUGHT_BY if kind.__name__ == "Raises")
    (failure,) = check_mechanism(kind, only=["forward_equals_weights"]).failures
    assert failure.detail == "raised ZeroDivisionError: there is no score"


def test_the_failure_reports_the_worst_element() -> None:
    kind = next(kind for kind in CAUGHT_BY if kind.__name__ == "ScalesTwice")
    (failure,) = check_mechanism(kind, only=["forward_equals_weights"]).failures
    assert failure.worst is not None
    assert f"element {list(failure.worst.index)} should be" in failure.detail
    assert failure.worst.expected != failure.worst.got
