"""Claim records: JSON round trip, and validation of every field of a file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.factories.claims import CLAIMS, LINES, TABLE

from regard.claims.engine import run_claims
from regard.core.errors import RegardError
from regard.core.records.claim import (
    ClaimRecord,
    Curve,
    CurveFigure,
    MatrixFigure,
    read_records,
    records_as_json,
)

RECORDS = run_claims(CLAIMS)
EVEN, ODD = RECORDS[:2]
DELETED = object()


def strictly(text: str) -> Any:
    """Parse with a strict JSON reader: no NaN or Infinity."""

    def reject(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=reject)


def with_finding(record: ClaimRecord, **changes: Any) -> ClaimRecord:
    assert record.finding is not None
    return replace(record, finding=replace(record.finding, **changes))


def test_records_round_trip(tmp_path: Path) -> None:
    failed = replace(EVEN, name="failed", finding=None, error="ZeroDivisionError")
    path = tmp_path / "records.json"
    path.write_text(records_as_json([*RECORDS, failed]), encoding="utf-8")
    assert read_records(path) == [*RECORDS, failed]


def test_non_finite_numbers_round_trip_as_strings() -> None:
    numbers = (math.inf, -math.inf, 1.0)
    record = with_finding(
        EVEN,
        values={"most": math.inf, "least": -math.inf, "text": "inf", "count": 10**30, "yes": True},
        figure=replace(LINES, curves=(Curve(label="c", x=numbers, y=numbers),)),
    )
    text = record.as_json()
    assert strictly(text)["finding"]["values"]["most"] == "Infinity"
    assert ClaimRecord.from_json(text) == record
    table = with_finding(ODD, figure=MatrixFigure(title="T", values=((math.nan, *numbers),)))
    read = ClaimRecord.from_json(table.as_json()).finding
    assert read is not None
    assert isinstance(read.figure, MatrixFigure)
    assert math.isnan(read.figure.values[0][0])
    assert read.figure.values[0][1:] == numbers


VALUES = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc–½ \n")


@given(
    st.dictionaries(st.text("ab _"), VALUES),
    st.lists(st.floats(allow_nan=False), max_size=5).map(tuple),
)
def test_any_values_and_curves_round_trip(
    values: dict[str, Any], numbers: tuple[float, ...]
) -> None:
    curve = Curve(label="", x=numbers, y=numbers, high=numbers)
    figure = CurveFigure(title="", x_label="", y_label="", curves=(curve,), y_scale="log")
    record = with_finding(EVEN, values=values, figure=figure)
    text = record.as_json()
    strictly(text)
    read = ClaimRecord.from_json(text)
    assert read == record
    assert read.finding is not None
    kinds = {name: type(value) for name, value in read.finding.values.items()}
    assert kinds == {name: type(value) for name, value in values.items()}


def test_error_for_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"none.json.* `regard claims --out "):
        read_records(tmp_path / "none.json")


def changed(record: ClaimRecord, field: str, value: Any) -> str:
    """The record as a file, with another value at a path such as "finding/figure/curves/0/x"."""
    parsed = json.loads(record.as_json())
    inside = parsed
    *parents, last = [int(step) if step.isdecimal() else step for step in field.split("/")]
    for step in parents:
        inside = inside[step]
    if value is DELETED:
        del inside[last]
    else:
        inside[last] = value
    return json.dumps([parsed])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Invalid JSON"),
        ("{}", "it is {}, must be"),
        ("null", "it is None, must be"),
        ("[]", "the list is empty"),
        ("[1]", r"\[0\] is 1, must be an object"),
        ('[{"name": "a"}]', r"\[0\]\.topic is missing"),
        ("[[]]", r"\[0\] is \[\], must be an object"),
        ("\xff", "Invalid JSON"),
        ("[NaN]", r"\[0\] is nan"),
        ("[" * 100_000 + "]" * 100_000, "recursion limit"),
        ('[{"name": ' + "1" * 5000 + "}]", "Invalid JSON: number"),
        (changed(EVEN, "statement", "\ud800 x"), r"Invalid JSON: .*line 1 column \d+"),
        (records_as_json([EVEN, EVEN]), "it has 2 records of the claim 'squares-are-even'"),
    ],
)
def test_error_for_a_file_without_records(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_bytes(text.encode("utf-8" if "squares" in text else "latin-1"))
    with pytest.raises(RegardError, match=f"is not a file of claim records: .*{why}") as raised:
        read_records(path)
    assert str(raised.value).endswith("`regard claims --out`.")


@pytest.mark.parametrize(
    "name",
    ["name", "topic", "statement", "formula", "source", "proof", "code", "skip_reason", "error"],
)
@pytest.mark.parametrize("value", [5, None, ["a"]])
def test_error_for_a_field_that_is_not_a_string(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(changed(EVEN, name, value), encoding="utf-8")
    with pytest.raises(RegardError, match=rf"\[0\]\.{name} is .*, must be a valid string"):
        read_records(path)


CURVE = "finding/figure/curves/0"


@pytest.mark.parametrize(
    ("record", "field", "value", "why"),
    [
        (EVEN, "name", "a b", "name is 'a b', must"),
        (EVEN, "name", "a\x1b[31m", "name is 'a\\x1b[31m', must"),
        (EVEN, "known_false", "no", "known_false is 'no', must be a valid boolean"),
        (EVEN, "trained", 1, "trained is 1, must be a valid boolean"),
        (EVEN, "seconds", "x", "seconds is 'x', must be a valid number"),
        (EVEN, "seconds", "NaN", "seconds is 'NaN', must be a valid number"),
        (EVEN, "seconds", -1, "seconds is -1, must be greater than or equal to 0"),
        (EVEN, "settings", [1], "settings is [1], must be an object"),
        (
            EVEN,
            "settings/n",
            [1],
            "settings.n is [1], must be a valid boolean or be a valid integer",
        ),
        (EVEN, "settings/\x1b[2J", None, "settings['\\x1b[2J'] is None"),
        (EVEN, "extra", 1, "unknown field [0].extra"),
        (EVEN, "formula", DELETED, "the field [0].formula is missing"),
        (EVEN, "finding", [1], "finding is [1], must be an object"),
        (EVEN, "finding", None, "The claim 'squares-are-even' has no finding"),
        (EVEN, "finding/verdict", "maybe", "finding.verdict is 'maybe', must be 'holds'"),
        (EVEN, "finding/verdict", ["holds"], "finding.verdict is ['holds'], must be 'holds'"),
        (
            EVEN,
            "finding/verdict",
            "holds if",
            "finding: The verdict 'holds if' requires a condition",
        ),
        (EVEN, "finding/values", None, "finding.values is None, must be an object"),
        (EVEN, "finding/values/square", {}, "finding.values.square is {}, must be"),
        (EVEN, "finding/figure", 3, "finding.figure is 3, must be an object"),
        (EVEN, "finding/figure/kind", "Drawing", "finding.figure: Input tag 'Drawing'"),
        (
            EVEN,
            "finding/figure/x_scale",
            "foo",
            "x_scale is 'foo', must be 'linear' or 'log'",
        ),
        (EVEN, "finding/figure/curves", {}, "curves is {}, must be a valid array"),
        (
            EVEN,
            "finding/figure/marks",
            [[1.0]],
            "marks[0][1] is missing",
        ),
        (EVEN, "finding/figure/marks/0/0", "a", "finding.figure.marks[0][0] is 'a'"),
        (EVEN, "finding/figure/marks/0/1", 5, "marks[0][1] is 5, must be a valid string"),
        (EVEN, f"{CURVE}/x", [1.0], "'n² < n³' has 1 numbers in x and 3 in y"),
        (EVEN, f"{CURVE}/low", [1.0], "'n² < n³' has 3 numbers in x and 1 in low"),
        (EVEN, f"{CURVE}/y", None, "finding.figure.curves[0].y is None, must be a valid array"),
        (EVEN, f"{CURVE}/y/1", "a", "finding.figure.curves[0].y[1] is 'a', must be a valid number"),
        (EVEN, f"{CURVE}/y/1", True, "curves[0].y[1] is True, must be a valid number"),
        (EVEN, f"{CURVE}/y/1", 10**400, "curves[0].y[1] is 1000"),
        (EVEN, f"{CURVE}/dashed", "no", "dashed is 'no', must be a valid boolean"),
        (ODD, "finding/figure/values", [[1.0], []], "'A <table>' has rows of 0 and of 1 numbers"),
        (ODD, "finding/figure/values/0/1", None, "finding.figure.values[0][1] is None"),
        (ODD, "finding/figure/row_labels", [1, 2], "row_labels[0] is 1, must be a valid string"),
    ],
)
def test_error_names_the_invalid_field(
    record: ClaimRecord, field: str, value: Any, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "records.json"
    path.write_text(changed(record, field, value), encoding="utf-8")
    with pytest.raises(RegardError) as raised:
        read_records(path)
    assert "is not a file of claim records: " in str(raised.value)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Curve(label="c", x=(1.0,), y=()), "'c' has 1 numbers in x and 0 in y"),
        (lambda: replace(TABLE, values=((1.0,), (1.0, 2.0))), "rows of 1 and of 2 numbers"),
        (lambda: replace(EVEN, finding=None), "has no finding"),
    ],
)
def test_error_for_inconsistent_records(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        make()
