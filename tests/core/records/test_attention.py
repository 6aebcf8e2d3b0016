"""Alignment records: they come back from JSON as they were, and refuse maps that do not fit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord

RECORD = AlignmentRecord(
    source_tokens=("ein", "Hund", "</s>"),
    output_tokens=("a", 'd"ög\n'),
    maps={
        "layer 1": (((0.1, 0.2, 0.7), (1.0, 0.0, 0.0)), ((0.3, 0.3, 0.4), (-1e-30, 1 / 3, 2.0))),
        "layer 2": (((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),),
    },
    title="a dog — 狗",
)


def test_json_gives_the_same_record_back() -> None:
    assert AlignmentRecord.from_json(RECORD.as_json()) == RECORD


def test_whole_numbers_become_weights() -> None:
    plain = json.loads(RECORD.as_json())
    plain["maps"] = {"layer 2": [[[1, 0, 0], [0, 1, 0]]]}
    maps = AlignmentRecord.from_json(json.dumps(plain)).maps
    assert maps == {"layer 2": RECORD.maps["layer 2"]}
    assert isinstance(maps["layer 2"][0][0][0], float)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"maps": {}}, "has no maps"),
        ({"maps": {"m": ()}}, "Map 'm' has no heads"),
        ({"maps": {"m": (((0.0, 1.0, 0.0),),)}}, "'m', head 1 has 1 rows for 2 output tokens"),
        ({"maps": {"m": (((0.0, 1.0),) * 2,)}}, "a row of 2 weights for 3 source tokens"),
        ({"maps": {"m": (((0.0, 1.0, float("nan")),) * 2,)}}, "the weight nan"),
        ({"maps": {"m": (((0.0, 1.0, float("inf")),) * 2,)}}, "the weight inf"),
        ({"source_tokens": ()}, "not 0 of the source and 2 of the output"),
        ({"output_tokens": ()}, "not 3 of the source and 0 of the output"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        dataclasses.replace(RECORD, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"maps": {"m": 3}},
        {"maps": [1, 2]},
        {"maps": {"m": [[["x", 1, 2], [0, 0, 0]]]}},
        {"source_tokens": "abc"},
        {"source_tokens": [1, 2, 3]},
        {"title": 3},
        {"colour": "red"},
    ],
)
def test_other_json_is_refused(change: dict[str, Any]) -> None:
    plain = json.loads(RECORD.as_json()) | change
    with pytest.raises(RegardError, match="not an alignment"):
        AlignmentRecord.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(RegardError, match="not an alignment"):
        AlignmentRecord.from_json(text)


def test_a_record_that_does_not_fit_says_so_when_read() -> None:
    text = RECORD.as_json().replace('"ein", ', "")
    with pytest.raises(RegardError, match="a row of 3 weights for 2 source tokens"):
        AlignmentRecord.from_json(text)
