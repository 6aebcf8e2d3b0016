"""Alignment and tree records: JSON round trip, and rejection of inconsistent values."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord, TreeRecord

ALIGNMENT = AlignmentRecord(
    source_tokens=("ein", "Hund", "</s>"),
    output_tokens=("a", 'd"ög\n'),
    maps={
        "layer 1": (((0.1, 0.2, 0.7), (1.0, 0.0, 0.0)), ((0.3, 0.3, 0.4), (-1e-30, 1 / 3, 2.0))),
        "layer 2": (((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),),
    },
    title="a dog — 狗",
)


def test_alignment_json_round_trip() -> None:
    assert AlignmentRecord.from_json(ALIGNMENT.as_json()) == ALIGNMENT


def test_integer_weights_become_floats() -> None:
    plain = json.loads(ALIGNMENT.as_json())
    plain["maps"] = {"layer 2": [[[1, 0, 0], [0, 1, 0]]]}
    maps = AlignmentRecord.from_json(json.dumps(plain)).maps
    assert maps == {"layer 2": ALIGNMENT.maps["layer 2"]}
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
        ({"source_tokens": ()}, "0 source tokens and 2 output tokens"),
        ({"output_tokens": ()}, "3 source tokens and 0 output tokens"),
    ],
)
def test_inconsistent_alignment_is_rejected(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        dataclasses.replace(ALIGNMENT, **change)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"maps": {"m": 3}}, "maps.m is 3"),
        ({"maps": [1, 2]}, "maps is [1, 2]"),
        ({"maps": {"m": [[["x", 1, 2], [0, 0, 0]]]}}, "maps.m[0][0][0] is 'x'"),
        ({"maps": {"layer 1": 3}}, "maps['layer 1'] is 3"),
        ({"source_tokens": "abc"}, "source_tokens is 'abc'"),
        ({"source_tokens": [1, 2, 3]}, "source_tokens[0] is 1"),
        ({"title": 3}, "title is 3"),
        ({"colour": "red"}, "unknown field colour"),
    ],
)
def test_other_json_is_not_an_alignment(change: dict[str, Any], field: str) -> None:
    plain = json.loads(ALIGNMENT.as_json()) | change
    with pytest.raises(RegardError, match=f"not a valid AlignmentRecord: {re.escape(field)}"):
        AlignmentRecord.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_other_text_is_not_an_alignment(text: str) -> None:
    with pytest.raises(RegardError, match="not a valid AlignmentRecord"):
        AlignmentRecord.from_json(text)


def test_inconsistent_alignment_json_is_rejected() -> None:
    text = ALIGNMENT.as_json().replace('"ein", ', "")
    with pytest.raises(RegardError, match="a row of 3 weights for 2 source tokens"):
        AlignmentRecord.from_json(text)


TREE = TreeRecord(
    leaves=("very", 'g"ööd\n', "film", "."),
    merges=((0, 1), (2, 3), (4, 5)),
    errors=(0.25, 1 / 3, 2.0),
    predictions=("good", "good", "bad", "bad", "good", "bad", "good"),
    confidences=(0.5, 1.0, 0.75, 0.6, 0.9, 0.5, 0.99),
    title="very good — 好",
)


def test_tree_json_round_trip() -> None:
    assert TreeRecord.from_json(TREE.as_json()) == TREE


def test_tree_levels() -> None:
    assert TREE.num_nodes == 7
    assert TREE.levels == [0, 0, 0, 0, 1, 1, 2]


def test_tree_of_one_leaf() -> None:
    record = TreeRecord(
        leaves=("oh",), merges=(), errors=(), predictions=("bad",), confidences=(0.5,), title=""
    )
    assert TreeRecord.from_json(record.as_json()) == record
    assert (record.num_nodes, record.levels) == (1, [0])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"leaves": ()}, "has no leaves"),
        ({"merges": ((0, 1),)}, "1 merges for 4 leaves"),
        ({"errors": (0.0,) * 4}, "4 errors for 4 leaves"),
        ({"predictions": ("good",) * 6}, "6 predictions for 7 nodes"),
        ({"confidences": ()}, "0 confidences for 7 nodes"),
        ({"errors": (0.0, float("nan"), 0.0)}, "the error nan"),
        ({"confidences": (0.5,) * 6 + (1.5,)}, "the confidence 1.5"),
        ({"merges": ((0, 1), (4, 3), (2, 5))}, "Merge 5 .* is of 4 and 3"),
        ({"merges": ((1, 0), (2, 3), (4, 5))}, "Merge 4 .* is of 1 and 0"),
        ({"merges": ((0, 1), (1, 2), (4, 3))}, "Merge 5 .* is of 1 and 2"),
        ({"merges": ((0, 1), (2, 6), (4, 5))}, "Merge 5 .* is of 2 and 6"),
    ],
)
def test_inconsistent_tree_is_rejected(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        dataclasses.replace(TREE, **change)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"leaves": "word"}, "leaves is 'word'"),
        ({"merges": [[0, 1, 2]]}, "merges[0] is [0, 1, 2]"),
        ({"merges": [[0, True]]}, "merges[0][1] is True"),
        ({"errors": 3}, "errors is 3"),
        ({"errors": [float("nan")]}, "errors[0] is nan"),
        ({"predictions": [1, 2]}, "predictions[0] is 1"),
        ({"more": 1}, "unknown field more"),
    ],
)
def test_other_json_is_not_a_tree(change: dict[str, Any], field: str) -> None:
    plain = json.loads(TREE.as_json()) | change
    with pytest.raises(RegardError, match=f"not a valid TreeRecord: {re.escape(field)}"):
        TreeRecord.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["[]", "{}", "nonsense", "3"])
def test_other_text_is_not_a_tree(text: str) -> None:
    with pytest.raises(RegardError, match="not a valid TreeRecord"):
        TreeRecord.from_json(text)
