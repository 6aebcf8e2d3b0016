"""The balance of labels: its numbers and its sentence."""

from __future__ import annotations

import json

import pytest

from regard.core.errors import RegardError
from regard.tasks.classification.labels import ClassBalance


def test_the_example_of_the_docstring() -> None:
    found = ClassBalance.of("aaaaaabbbc")
    assert found.counts == {"a": 6, "b": 3, "c": 1}
    assert (found.total, found.commonest, found.rarest) == (10, "a", "c")
    assert (found.commonest_share, found.imbalance_ratio) == (60.0, 6.0)
    assert found.describe() == (
        "3 labels over 10 texts: 'a' is the commonest (60.0 %, the accuracy of always saying it), 'c' the "
        "rarest (10.0 %), 6 times rarer; look at macro-F1 beside accuracy."
    )
    assert json.loads(json.dumps(found.as_json())) == {
        "counts": {"a": 6, "b": 3, "c": 1},
        "commonest": "a",
        "commonest_share": 60.0,
        "rarest": "c",
        "imbalance_ratio": 6.0,
    }


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            "abba",
            "2 labels over 4 texts, all equally common: always saying the same one is right in 50.0 %.",
        ),
        ("aa", "1 label over 2 texts: 'a', nothing to tell apart."),
        (
            "aab",
            "2 labels over 3 texts: 'a' is the commonest (66.7 %, the accuracy of always saying it), "
            "'b' the rarest (33.3 %), 2 times rarer.",
        ),
    ],
)
def test_sentences(labels: str, sentence: str) -> None:
    assert ClassBalance.of(labels).describe() == sentence


def test_the_order_does_not_matter() -> None:
    assert list(ClassBalance.of("cab").counts) == list(ClassBalance.of("bca").counts)


def test_nothing_has_no_balance() -> None:
    with pytest.raises(RegardError, match="nothing to balance"):
        ClassBalance.of([])


def test_labels_that_are_nearly_as_common_are_called_so() -> None:
    said = ClassBalance.of("a" * 1001 + "b" * 1000).describe()
    assert "all about equally common: always saying the same one is right in 50.0 %" in said
