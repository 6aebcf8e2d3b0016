"""Records of claims come back from their file as they were, and a file that holds others is refused."""

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
from regard.core.records.claim import ClaimRecord, Curve, CurvePicture, MatrixPicture
from regard.core.records.claim_file import read_records, record_from, records_as_json

RECORDS = run_claims(CLAIMS)
EVEN, ODD = RECORDS[:2]
DELETED = object()


def strictly(text: str) -> Any:
    """What a reader that knows no more than JSON makes of it."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def with_figures(record: ClaimRecord, **words: Any) -> ClaimRecord:
    assert record.finding is not None
    return replace(record, finding=replace(record.finding, **words))


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    failed = replace(EVEN, name="failed", finding=None, trouble="ZeroDivisionError")
    path = tmp_path / "records.json"
    path.write_text(records_as_json([*RECORDS, failed]), encoding="utf-8")
    assert read_records(path) == [*RECORDS, failed]


def test_numbers_that_are_not_finite_are_json_and_come_back() -> None:
    numbers = (math.inf, -math.inf, 1.0)
    record = with_figures(
        EVEN,
        figures={"most": math.inf, "least": -math.inf, "text": "inf", "count": 10**30, "yes": True},
        picture=replace(LINES, curves=(Curve(label="c", x=numbers, y=numbers),)),
    )
    text = record.as_json()
    assert strictly(text)["finding"]["figures"]["most"] == "Infinity"
    assert record_from(strictly(text)) == record
    table = with_figures(ODD, picture=MatrixPicture(title="T", values=((math.nan, *numbers),)))
    read = record_from(strictly(table.as_json())).finding
    assert read is not None
    assert isinstance(read.picture, MatrixPicture)
    assert math.isnan(read.picture.values[0][0])
    assert read.picture.values[0][1:] == numbers


VALUES = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc–½ \n")


@given(
    st.dictionaries(st.text("ab _"), VALUES),
    st.lists(st.floats(allow_nan=False), max_size=5).map(tuple),
)
def test_any_figures_and_curves_come_back(
    figures: dict[str, Any], numbers: tuple[float, ...]
) -> None:
    curve = Curve(label="", x=numbers, y=numbers, high=numbers)
    picture = CurvePicture(title="", x_label="", y_label="", curves=(curve,), y_scale="log")
    record = with_figures(EVEN, figures=figures, picture=picture)
    read = record_from(strictly(record.as_json()))
    assert read == record
    assert read.finding is not None
    kinds = {name: type(value) for name, value in read.finding.figures.items()}
    assert kinds == {name: type(value) for name, value in figures.items()}


def test_a_missing_file_says_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"cannot be read: No such file.* `regard claims --out "):
        read_records(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("{}", "it is {}, and must be a list of records"),
        ("null", "it is None, and must be a list of records"),
        ("[]", "its list is empty"),
        ("[1]", "in record 1, it is 1, and must be an object"),
        ('[{"name": "a"}]', "in record 1, the field topic is missing"),
        ("[[]]", r"in record 1, it is \[\], and must be an object"),
        ("\xff", "can't decode byte"),
        ("[NaN]", 'NaN is no number of JSON; it is written as "NaN"'),
        ("[" * 100_000 + "]" * 100_000, "it is nested too deeply"),
        (records_as_json([EVEN, EVEN]), "it has 2 records of the claim 'squares-are-even'"),
    ],
)
def test_what_holds_no_records_is_refused(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_bytes(text.encode("utf-8" if "squares" in text else "latin-1"))
    with pytest.raises(RegardError, match=f"does not hold records of claims: .*{why}") as raised:
        read_records(path)
    assert str(raised.value).endswith(". Give a file that `regard claims --out` wrote.")


def changed(record: ClaimRecord, place: str, value: Any) -> str:
    """The record as a file, with another value at a place such as "finding/picture/curves/0/x"."""
    held = json.loads(record.as_json())
    inside = held
    *way, last = [int(step) if step.isdecimal() else step for step in place.split("/")]
    for step in way:
        inside = inside[step]
    if value is DELETED:
        del inside[last]
    else:
        inside[last] = value
    return json.dumps([held])


@pytest.mark.parametrize(
    "name", ["name", "topic", "statement", "formula", "source", "proof", "code", "waits", "trouble"]
)
@pytest.mark.parametrize("value", [5, None, ["a"]])
def test_what_must_be_a_text_is_one(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(changed(EVEN, name, value), encoding="utf-8")
    with pytest.raises(RegardError, match=r"in record 1, \w+ is .*, and must be a text"):
        read_records(path)


CURVE = "finding/picture/curves/0"


@pytest.mark.parametrize(
    ("record", "place", "value", "why"),
    [
        (EVEN, "name", "a b", "name is 'a b', and must be one word"),
        (EVEN, "name", "a\x1b[31m", "and must be one word"),
        (EVEN, "statement", "\ud800 x", "statement has half a character at 1"),
        (EVEN, "marked_wrong", "no", "marked_wrong is 'no', and must be true or false"),
        (EVEN, "trained", 1, "trained is 1, and must be true or false"),
        (EVEN, "seconds", "x", "seconds is 'x', and must be a number"),
        (EVEN, "seconds", "NaN", "seconds is 'NaN', and must be 0 or more"),
        (EVEN, "seconds", -1, "seconds is -1, and must be 0 or more"),
        (EVEN, "settings", [1], "settings is [1], and must be an object"),
        (EVEN, "settings/n", [1], "settings.n is [1], and must be a number, a text, true or false"),
        (EVEN, "settings/\x1b[2J", None, "settings.['\\x1b[2J'] is None"),
        (EVEN, "extra", 1, "there is no such field: extra"),
        (EVEN, "formula", DELETED, "the field formula is missing"),
        (EVEN, "finding", [1], "finding is [1], and must be an object"),
        (EVEN, "finding", None, "The claim 'squares-are-even' has no finding: give waits"),
        (EVEN, "finding/verdict", "maybe", "finding.verdict is 'maybe', and must be one of holds"),
        (EVEN, "finding/verdict", ["holds"], "finding.verdict is ['holds'], and must be one of"),
        (EVEN, "finding/verdict", "holds if", "finding is wrong: A statement that holds if"),
        (EVEN, "finding/figures", None, "finding.figures is None, and must be an object"),
        (EVEN, "finding/figures/square", {}, "finding.figures.square is {}, and must be a number"),
        (EVEN, "finding/picture", 3, "finding.picture is 3, and must be an object"),
        (EVEN, "finding/picture/kind", "Drawing", "finding.picture.kind is 'Drawing'"),
        (
            EVEN,
            "finding/picture/x_scale",
            "foo",
            "x_scale is 'foo', and must be one of linear, log",
        ),
        (EVEN, "finding/picture/curves", {}, "curves is {}, and must be a list"),
        (
            EVEN,
            "finding/picture/marks",
            [[1.0]],
            "marks[0] is [1.0], and must be a list of a number",
        ),
        (EVEN, "finding/picture/marks/0/0", "a", "finding.picture.marks[0][0] is 'a'"),
        (EVEN, "finding/picture/marks/0/1", 5, "marks[0][1] is 5, and must be a text"),
        (EVEN, f"{CURVE}/x", [1.0], "'n² < n³' has 1 numbers in x and 3 in y"),
        (EVEN, f"{CURVE}/low", [1.0], "'n² < n³' has 3 numbers in x and 1 in low"),
        (EVEN, f"{CURVE}/y", None, "finding.picture.curves[0].y is None, and must be a list"),
        (EVEN, f"{CURVE}/y/1", "a", "finding.picture.curves[0].y[1] is 'a', and must be a number"),
        (EVEN, f"{CURVE}/y/1", True, "curves[0].y[1] is True, and must be a number"),
        (EVEN, f"{CURVE}/y/1", 10**400, "0000, and must be below 10³⁰⁸"),
        (EVEN, f"{CURVE}/dashed", "no", "dashed is 'no', and must be true or false"),
        (ODD, "finding/picture/values", [[1.0], []], "'A <table>' has rows of 0 and of 1 numbers"),
        (ODD, "finding/picture/values/0/1", None, "finding.picture.values[0][1] is None"),
        (ODD, "finding/picture/row_labels", [1, 2], "row_labels[0] is 1, and must be a text"),
    ],
)
def test_a_field_of_another_kind_is_refused_by_its_name(
    record: ClaimRecord, place: str, value: Any, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "records.json"
    path.write_text(changed(record, place, value), encoding="utf-8")
    with pytest.raises(RegardError) as raised:
        read_records(path)
    assert "does not hold records of claims: in record 1, " in str(raised.value)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Curve(label="c", x=(1.0,), y=()), "'c' has 1 numbers in x and 0 in y"),
        (lambda: replace(TABLE, values=((1.0,), (1.0, 2.0))), "rows of 1 and of 2 numbers"),
        (lambda: replace(EVEN, finding=None), "has no finding: give waits, or trouble"),
    ],
)
def test_no_such_record_can_be_made(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        make()
