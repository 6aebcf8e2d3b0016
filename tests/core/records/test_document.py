"""Document and deletion records: JSON round trip, and rejection of inconsistent values."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from tests.factories.documents import make_deletion_record, make_document_record

from regard.core.errors import RegardError
from regard.core.records.document import DeletionRecord, DocumentRecord, Estimate

DOCUMENT = DocumentRecord(
    tokens=("a", 'd"ull\n', "狗"),
    segments=(0, 0, 1),
    hops=((0.25, 0.75, 1.0), (0.75, 0.25, 1.0)),
    sentence_weights=(0.6, 0.4),
    label="up",
    probabilities={"up": 1 / 3, "down": 2 / 3},
    title="t",
    drops=(0.1, -0.5, None),
)


@pytest.mark.parametrize(
    "record",
    [
        DOCUMENT,
        make_document_record(),
        make_document_record(hops=3, weighed=False, reference=None, drops=None),
    ],
)
def test_document_json_round_trip(record: DocumentRecord) -> None:
    assert DocumentRecord.from_json(record.as_json()) == record


def test_truncated_tokens_are_kept_and_optional() -> None:
    cut = dataclasses.replace(DOCUMENT, truncated_tokens=7)
    assert DocumentRecord.from_json(cut.as_json()) == cut
    older = {
        key: value
        for key, value in json.loads(DOCUMENT.as_json()).items()
        if key != "truncated_tokens"
    }
    assert DocumentRecord.from_json(json.dumps(older)) == DOCUMENT


def test_importance_is_mean_hop_weight_times_sentence_weight() -> None:
    assert DOCUMENT.importance() == pytest.approx((0.3, 0.3, 0.4))
    flat = dataclasses.replace(DOCUMENT, sentence_weights=None)
    assert flat.importance() == pytest.approx((0.5, 0.5, 1.0))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tokens": (), "segments": (), "hops": ((),), "drops": None}, "has no tokens"),
        ({"hops": ()}, "has no weights"),
        ({"hops": ((0.5, 0.5),)}, "2 weights in hop 1 for 3 tokens"),
        ({"segments": (0, 0)}, "2 segments for 3 tokens"),
        ({"drops": (0.1,)}, "1 drops for 3 tokens"),
        ({"hops": ((0.5, 0.5, float("nan")),)}, "the weight nan"),
        ({"hops": ((0.5, 0.5, -0.1),)}, "the weight -0.1"),
        ({"sentence_weights": (0.5, float("inf"))}, "the weight inf"),
        ({"sentence_weights": (1.0,)}, "1 sentence weights, but a token of segment 1"),
        ({"segments": (0, -1, 1)}, "a token has the segment -1"),
        ({"truncated_tokens": -1}, "truncated_tokens=-1"),
        ({"label": "left"}, "label 'left' has no probability; these have: up, down"),
    ],
)
def test_inconsistent_document_is_rejected(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=f"(?i){complaint}"):
        dataclasses.replace(DOCUMENT, **change)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tokens": "abc"}, "tokens is 'abc'"),
        ({"tokens": [1, 2, 3]}, "tokens[0] is 1"),
        ({"hops": [["x", 1, 2]]}, "hops[0][0] is 'x'"),
        ({"sentence_weights": 3}, "sentence_weights is 3"),
        ({"probabilities": [1]}, "probabilities is [1]"),
        ({"reference": 3}, "reference is 3"),
        ({"colour": "red"}, "unknown field colour"),
    ],
)
def test_other_json_is_not_a_document(change: dict[str, Any], field: str) -> None:
    plain = json.loads(DOCUMENT.as_json()) | change
    with pytest.raises(RegardError, match=f"not a valid DocumentRecord: {re.escape(field)}"):
        DocumentRecord.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json"])
def test_other_text_is_not_a_document(text: str) -> None:
    with pytest.raises(RegardError, match="not a valid DocumentRecord"):
        DocumentRecord.from_json(text)


def test_inconsistent_deletion_inside_a_document_is_rejected() -> None:
    plain = json.loads(make_document_record().as_json())
    plain["deletion"]["removed"] = [1.0]
    with pytest.raises(RegardError, match="1 removed for 6 fractions"):
        DocumentRecord.from_json(json.dumps(plain))


DELETION = make_deletion_record()


@pytest.mark.parametrize("record", [DELETION, make_deletion_record(texts=1)])
def test_deletion_json_round_trip(record: DeletionRecord) -> None:
    assert DeletionRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record


def test_index_of_nearest_fraction() -> None:
    assert [DELETION.index_of(fraction) for fraction in (0.0, 0.1, 0.16, 0.9)] == [0, 3, 4, 5]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"fractions": ()}, r"fractions=\[\]"),
        ({"fractions": (0.1, 0.1, 0.2, 0.3, 0.4, 0.5)}, r"fractions=\[0.1, 0.1"),
        ({"removed": (1.0,)}, "1 removed for 6 fractions"),
        ({"differences": (Estimate(mean=0.0),)}, "1 differences for 6 fractions"),
        ({"top": dataclasses.replace(DELETION.top, flips=())}, "0 flips of 'top' for 6 fractions"),
        ({"texts": 0}, "is of 0 texts"),
    ],
)
def test_inconsistent_deletion_is_rejected(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        dataclasses.replace(DELETION, **change)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"top": 3}, "top is 3"),
        ({"fractions": ["x"]}, "fractions[0] is 'x'"),
        ({"probability": float("nan")}, "probability is nan"),
        (
            {"area_difference": {"mean": "?", "low": None, "high": None}},
            "area_difference.mean is '?'",
        ),
        ({"colour": "red"}, "unknown field colour"),
    ],
)
def test_other_values_are_not_a_deletion_result(change: dict[str, Any], field: str) -> None:
    with pytest.raises(RegardError, match=f"not a valid DeletionRecord: {re.escape(field)}"):
        DeletionRecord.from_dict(DELETION.to_dict() | change)


@pytest.mark.parametrize("plain", [None, [], {}])
def test_other_types_are_not_a_deletion_result(plain: Any) -> None:
    with pytest.raises(RegardError, match="not a valid DeletionRecord"):
        DeletionRecord.from_dict(plain)
