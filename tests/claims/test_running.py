"""Many claims: each has a record, and what cannot be decided says why. One: settings that do not fit."""

from __future__ import annotations

import pytest
from tests.factories.claims import CLAIMS, LINES, squares_are_even, squares_are_learned

from regard.claims.engine import Claim, claim, run_changed, run_claims
from regard.core.errors import LackingError, RegardError
from regard.core.records.claim import ClaimRecord, Finding


def stopping(error: Exception, cause: Exception | None = None) -> Claim:
    @claim(statement="–", formula="–", source="–", proof="numeric")
    def broken() -> Finding:
        raise error from cause

    return broken


@claim(statement="–", formula="–", source="–", proof="numeric")
def has_a_fourth(*, n: int = 4, root: float = 2.0) -> Finding:
    """Fails in one of several ways, as the settings say."""
    if n == 8:
        raise RegardError("n=8: there are no eight.")
    if n == 9:
        raise MemoryError
    ways = {5: 1 / (root - 1), 6: [0] * 6, 7: 0.0}
    return Finding(
        verdict="holds",
        because=f"{list(range(n))[3]} {ways.get(n)} {root**n}",
        figures={},
        picture=LINES,
    )


def test_one_that_trains_is_run_only_if_asked() -> None:
    assert [record.waits[:9] for record in run_claims(CLAIMS)] == ["", "", "", "it trains"]
    (asked,) = run_claims([squares_are_learned], trained=True)
    assert asked.finding is None
    assert asked.waits == "There are no squares in this folder. Fetch them."
    assert asked.trouble == ""


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


def test_what_is_lacking_is_waited_for_also_if_a_study_says_it() -> None:
    missing = LackingError("There is no package. Install it.")
    wrapped = RegardError("In the variant 'a': There is no package. Install it.")
    for broken in (stopping(missing), stopping(wrapped, missing)):
        (record,) = run_claims([broken])
        assert record.waits.endswith("There is no package. Install it.")
        assert record.trouble == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RegardError("There is no boundary."), "There is no boundary."),
        (ZeroDivisionError(), "ZeroDivisionError (test_running.py, line 16)"),
        (RuntimeError("one\n  two"), "RuntimeError: one two (test_running.py, line 16)"),
    ],
)
def test_a_mistake_of_ours_is_not_hidden_and_keeps_nobody_else_from_running(
    error: Exception, told: str
) -> None:
    kept: list[ClaimRecord] = []
    records = run_claims([stopping(error), squares_are_even], done=kept.append)
    assert kept == records
    assert [record.name for record in records] == ["broken", "squares-are-even"]
    assert (records[0].finding, records[0].waits, records[0].trouble) == (None, "", told)
    assert records[1].finding is not None


def test_an_interruption_stops_them_all() -> None:
    @claim(statement="–", formula="–", source="–", proof="numeric")
    def interrupted() -> Finding:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_claims([interrupted, squares_are_even])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n": 3}, "cannot be decided with n=3 (IndexError: list index out of range). Use values"),
        ({"root": 1.0, "n": 5}, "with root=1.0, n=5 (ZeroDivisionError: float division by zero)"),
        (
            {"root": 1e300},
            "with root=1e+300 (OverflowError: (34, 'Numerical result out of range'))",
        ),
        ({"n": 9}, "with n=9 (MemoryError). Use values nearer the usual ones: n=4."),
        ({"n": 8}, "n=8: there are no eight."),
    ],
)
def test_settings_that_do_not_fit_are_told_in_one_line(
    changes: dict[str, object], told: str
) -> None:
    with pytest.raises(RegardError) as raised:
        run_changed(has_a_fourth, **changes)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert ("'has-a-fourth'" in str(raised.value)) == (changes != {"n": 8})


def test_without_changes_a_mistake_of_ours_is_one() -> None:
    assert run_changed(has_a_fourth).finding is not None
    with pytest.raises(ZeroDivisionError):
        run_changed(stopping(ZeroDivisionError()))
