"""Many claims: each has a record, and what cannot be decided says why."""

from __future__ import annotations

import pytest
from tests.made_up_claims import CLAIMS, squares_are_even, squares_are_learned

from regard.claims.claim import Claim, claim
from regard.claims.running import run_claims
from regard.core.claim_record import ClaimRecord, Finding


def test_one_that_trains_is_run_only_if_asked() -> None:
    assert [record.waits[:9] for record in run_claims(CLAIMS)] == ["", "", "", "it trains"]
    (asked,) = run_claims([squares_are_learned], trained=True)
    assert asked.finding is None
    assert asked.waits == "There are no squares in this folder. Fetch them."


def test_each_is_told_before_and_after() -> None:
    told: list[str] = []

    def begin(begun: Claim) -> None:
        told.append(f"begin {begun.name}")

    def done(record: ClaimRecord) -> None:
        told.append(f"done {record.name}")

    run_claims(CLAIMS[:2], begin=begin, done=done)
    assert told == [
        "begin squares-are-even",
        "done squares-are-even",
        "begin squares-are-odd",
        "done squares-are-odd",
    ]


def test_a_mistake_of_ours_is_not_hidden() -> None:
    @claim(statement="–", formula="–", source="–", proof="numeric")
    def broken() -> Finding:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_claims([squares_are_even, broken])
