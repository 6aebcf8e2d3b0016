"""Tree records: they come back from JSON as they were, and refuse what is no tree over their leaves."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.core.records.attention import TreeRecord

RECORD = TreeRecord(
    leaves=("very", 'g"ööd\n', "film", "."),
    joins=((0, 1), (2, 3), (4, 5)),
    errors=(0.25, 1 / 3, 2.0),
    said=("good", "good", "bad", "bad", "good", "bad", "good"),
    sure=(0.5, 1.0, 0.75, 0.6, 0.9, 0.5, 0.99),
    title="very good — 好",
)


def test_json_gives_the_same_record_back() -> None:
    assert TreeRecord.from_json(RECORD.as_json()) == RECORD


def test_what_can_be_asked_of_it() -> None:
    assert RECORD.num_nodes == 7
    assert RECORD.spans == [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (2, 4), (0, 4)]
    assert RECORD.levels == [0, 0, 0, 0, 1, 1, 2]
    assert RECORD.phrase(5) == "film ."


def test_a_leaf_alone() -> None:
    record = TreeRecord(leaves=("oh",), joins=(), errors=(), said=("bad",), sure=(0.5,), title="")
    assert TreeRecord.from_json(record.as_json()) == record
    assert (record.num_nodes, record.levels) == (1, [0])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"leaves": ()}, "has no leaves. Give at least one"),
        ({"joins": ((0, 1),)}, "1 joins for 4 leaves. Give 3"),
        ({"errors": (0.0,) * 4}, "4 errors for 4 leaves. Give 3"),
        ({"said": ("good",) * 6}, "6 said for 7 nodes. Give 7"),
        ({"sure": ()}, "0 sure for 7 nodes. Give 7"),
        ({"errors": (0.0, float("nan"), 0.0)}, "the error nan, and errors are finite"),
        ({"sure": (0.5,) * 6 + (1.5,)}, r"sure to 1.5. Give shares from 0 to 1"),
        ({"joins": ((0, 1), (4, 3), (2, 5))}, "Join 5 .* is of 4 and 3, which are not two neighb"),
        ({"joins": ((1, 0), (2, 3), (4, 5))}, "Join 4 .* is of 1 and 0"),
        ({"joins": ((0, 1), (1, 2), (4, 3))}, "Join 5 .* is of 1 and 2"),
        ({"joins": ((0, 1), (2, 6), (4, 5))}, "Join 5 .* is of 2 and 6"),
    ],
)
def test_what_is_no_tree_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        dataclasses.replace(RECORD, **change)


@pytest.mark.parametrize(
    "change",
    [{"leaves": "word"}, {"joins": [[0, 1, 2]]}, {"errors": 3}, {"said": [1, 2]}, {"more": 1}],
    ids=str,
)
def test_other_json_is_refused(change: dict[str, Any]) -> None:
    plain = json.loads(RECORD.as_json()) | change
    with pytest.raises(RegardError, match=r"not a tree .*Give what `TreeRecord.as_json` wrote"):
        TreeRecord.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["[]", "{}", "nonsense", "3"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(RegardError, match="The text is not a tree"):
        TreeRecord.from_json(text)
