"""Class balance: counts and description."""

from __future__ import annotations

import json

import pytest

from regard.core.errors import RegardError
from regard.data.labels import ClassBalance


def test_example() -> None:
    found = ClassBalance.of("aaaaaabbbc")
    assert found.counts == {"a": 6, "b": 3, "c": 1}
    assert (found.total, found.most_frequent, found.least_frequent) == (10, "a", "c")
    assert (found.majority_percent, found.imbalance_ratio) == (60.0, 6.0)
    assert found.describe() == (
        "3 labels in 10 texts (a 6, b 3, c 1): most frequent 'a' (60.0 %, the majority baseline), least "
        "frequent 'c' (10.0 %), imbalance ratio 6; report macro-F1 beside accuracy."
    )
    assert json.loads(json.dumps(found.as_json())) == {
        "counts": {"a": 6, "b": 3, "c": 1},
        "most_frequent": "a",
        "majority_percent": 60.0,
        "least_frequent": "c",
        "imbalance_ratio": 6.0,
    }


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("abba", "2 labels in 4 texts (a 2, b 2), balanced: majority baseline 50.0 %."),
        ("aa", "1 label in 2 texts: 'a', nothing to classify."),
        (
            "aab",
            "2 labels in 3 texts (a 2, b 1): most frequent 'a' (66.7 %, the majority baseline), least "
            "frequent 'b' (33.3 %), imbalance ratio 2.",
        ),
    ],
)
def test_describe(labels: str, sentence: str) -> None:
    assert ClassBalance.of(labels).describe() == sentence


def test_the_order_does_not_matter() -> None:
    assert list(ClassBalance.of("cab").counts) == list(ClassBalance.of("bca").counts)


def test_no_labels_raise() -> None:
    with pytest.raises(RegardError, match="no labels"):
        ClassBalance.of([])


def test_nearly_balanced() -> None:
    text = ClassBalance.of("a" * 1001 + "b" * 1000).describe()
    assert "nearly balanced: majority baseline 50.0 %" in text


def test_only_the_most_frequent_of_many_labels_are_counted() -> None:
    assert (
        "(A 3, B 2, C 1, D 1, E 1, F 1, G 1, H 1, I 1, J 1, …)"
        in ClassBalance.of("AABACDEFGHIJKLB").describe()
    )
