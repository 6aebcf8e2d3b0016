"""Document records: they come back from JSON as they were, and refuse what does not fit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from tests.factories.documents import made_up_document

from regard.core.errors import RegardError
from regard.core.records.document import DocumentRecord

RECORD = DocumentRecord(
    tokens=("a", 'd"ull\n', "狗"),
    segments=(0, 0, 1),
    hops=((0.25, 0.75, 1.0), (0.75, 0.25, 1.0)),
    sentences=(0.6, 0.4),
    label="up",
    probabilities={"up": 1 / 3, "down": 2 / 3},
    title="t",
    falls=(0.1, -0.5, None),
)


@pytest.mark.parametrize(
    "record",
    [RECORD, made_up_document(), made_up_document(hops=3, weighed=False, right=None, falls=None)],
)
def test_json_gives_the_same_record_back(record: DocumentRecord) -> None:
    assert DocumentRecord.from_json(record.as_json()) == record


def test_what_was_not_read_is_kept_and_need_not_be_told() -> None:
    cut = dataclasses.replace(RECORD, cut_tokens=7)
    assert DocumentRecord.from_json(cut.as_json()) == cut
    older = {
        key: value for key, value in json.loads(RECORD.as_json()).items() if key != "cut_tokens"
    }
    assert DocumentRecord.from_json(json.dumps(older)) == RECORD


def test_importance_is_the_mean_of_the_hops_times_the_sentence() -> None:
    assert RECORD.importance() == pytest.approx((0.3, 0.3, 0.4))
    flat = dataclasses.replace(RECORD, sentences=None)
    assert flat.importance() == pytest.approx((0.5, 0.5, 1.0))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tokens": (), "segments": (), "hops": ((),), "falls": None}, "has no tokens"),
        ({"hops": ()}, "has no weights"),
        ({"hops": ((0.5, 0.5),)}, "2 weights in hop 1 for 3 tokens"),
        ({"segments": (0, 0)}, "2 segments for 3 tokens"),
        ({"falls": (0.1,)}, "1 falls for 3 tokens"),
        ({"hops": ((0.5, 0.5, float("nan")),)}, "the weight nan"),
        ({"hops": ((0.5, 0.5, -0.1),)}, "the weight -0.1"),
        ({"sentences": (0.5, float("inf"))}, "the weight inf"),
        ({"sentences": (1.0,)}, "1 sentence weights, and a token of sentence 1"),
        ({"segments": (0, -1, 1)}, "a token is of sentence -1"),
        ({"cut_tokens": -1}, "cut_tokens=-1: it is a count"),
        ({"label": "left"}, "label 'left' has no probability; these have: up, down"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=f"(?i){complaint}"):
        dataclasses.replace(RECORD, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": "abc"},
        {"tokens": [1, 2, 3]},
        {"hops": [["x", 1, 2]]},
        {"sentences": 3},
        {"probabilities": [1]},
        {"right": 3},
        {"colour": "red"},
    ],
)
def test_other_json_is_refused(change: dict[str, Any]) -> None:
    plain = json.loads(RECORD.as_json()) | change
    with pytest.raises(RegardError, match="not a document"):
        DocumentRecord.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(RegardError, match="not a document"):
        DocumentRecord.from_json(text)


def test_a_fault_in_the_deletion_result_says_so() -> None:
    plain = json.loads(made_up_document().as_json())
    plain["deletion"]["removed"] = [1.0]
    with pytest.raises(RegardError, match="1 removed for 6 shares"):
        DocumentRecord.from_json(json.dumps(plain))
