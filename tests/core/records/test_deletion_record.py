"""Deletion records: they come back from JSON values as they were, and refuse what does not fit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from tests.factories.documents import made_up_deletion

from regard.core.errors import RegardError
from regard.core.records.document import DeletionRecord, Estimate

RECORD = made_up_deletion()


@pytest.mark.parametrize("record", [RECORD, made_up_deletion(texts=1)])
def test_json_gives_the_same_record_back(record: DeletionRecord) -> None:
    assert DeletionRecord.from_plain(json.loads(json.dumps(record.as_plain()))) == record


def test_the_nearest_share_is_found() -> None:
    assert [RECORD.place_of(share) for share in (0.0, 0.1, 0.16, 0.9)] == [0, 3, 4, 5]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"shares": ()}, "they go up"),
        ({"shares": (0.1, 0.1, 0.2, 0.3, 0.4, 0.5)}, "they go up"),
        ({"removed": (1.0,)}, "1 removed for 6 shares"),
        ({"differences": (Estimate(mean=0.0),)}, "1 differences for 6 shares"),
        ({"top": dataclasses.replace(RECORD.top, flips=())}, "0 flips of 'top' for 6 shares"),
        ({"texts": 0}, "is of 0 texts"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        dataclasses.replace(RECORD, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"top": 3},
        {"shares": ["x"]},
        {"probability": float("nan")},
        {"area_difference": {"mean": "?", "low": None, "high": None}},
        {"colour": "red"},
    ],
)
def test_other_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RegardError, match="not a deletion result"):
        DeletionRecord.from_plain(RECORD.as_plain() | change)


@pytest.mark.parametrize("plain", [None, [], {}])
def test_other_things_are_refused(plain: Any) -> None:
    with pytest.raises(RegardError, match="not a deletion result"):
        DeletionRecord.from_plain(plain)
