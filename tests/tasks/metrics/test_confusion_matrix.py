"""Confusion matrix: an example by hand, invariants, and agreement with scikit-learn."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.errors import RegardError
from regard.tasks.metrics.classification import (
    MAX_COLUMNS,
    ConfusedPair,
    ConfusionMatrix,
    MacroF1,
)

TRUE = ["a"] * 10 + ["b"] * 5
PREDICTED = ["a"] * 8 + ["b"] * 2 + ["a"] + ["b"] * 4


def test_example() -> None:
    found = ConfusionMatrix.of(PREDICTED, TRUE)
    assert found.labels == ("a", "b")
    assert found.counts.tolist() == [[8, 2], [1, 4]]
    assert found.accuracy == pytest.approx(100 * 12 / 15)
    a, b = found.label_scores()
    assert (a.label, b.label) == ("a", "b")
    assert a[1:] == pytest.approx((100 * 8 / 9, 80.0, 100 * 16 / 19, 10))
    assert b[1:] == pytest.approx((100 * 4 / 6, 80.0, 100 * 8 / 11, 5))
    assert found.confusions() == [ConfusedPair("a", "b", 2), ConfusedPair("b", "a", 1)]


def test_undefined_scores_are_nan() -> None:
    found = ConfusionMatrix.of(["a", "a"], ["a", "b"], labels=["b", "a", "c"])
    b, _, c = found.label_scores()
    assert math.isnan(b.precision)
    assert (b.recall, b.f1, b.support) == (0.0, 0.0, 1)
    assert all(math.isnan(score) for score in c[1:4])
    record = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert record["labels"] == ["b", "a", "c"]
    assert record["counts"] == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert record["by_label"][0] == {
        "label": "b",
        "precision": None,
        "recall": 0.0,
        "f1": 0.0,
        "support": 1,
    }


def test_table_of_few_labels() -> None:
    assert ConfusionMatrix.of(PREDICTED, TRUE).table().splitlines() == [
        "label  precision  recall    F1  items",
        "a           88.9    80.0  84.2     10",
        "b           66.7    80.0  72.7      5",
        "",
        "true \\ predicted  a  b",
        "a                 8  2",
        "b                 1  4",
    ]


def test_table_of_many_labels() -> None:
    labels = [f"label number {number}" for number in range(MAX_COLUMNS + 1)]
    text = ConfusionMatrix.of([labels[1], *labels[1:]], labels).table()
    assert "true \\ predicted" not in text
    assert text.splitlines()[-1] == "label number 0  label number 1      1"
    # Without confusions there is nothing to list.
    assert "times" not in ConfusionMatrix.of(labels, labels).table()


LABELS = st.sampled_from("abcd")


@settings(database=None, deadline=None)
@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40))
def test_sums_and_macro_f1(pairs: list[tuple[str, str]]) -> None:
    predicted, true = ([pair[side] for pair in pairs] for side in (0, 1))
    found = ConfusionMatrix.of(predicted, true)
    assert found.counts.sum() == len(pairs)
    assert sum(score.support for score in found.label_scores()) == len(pairs)
    wrong = sum(pair.times for pair in found.confusions(most=99))
    assert found.accuracy == pytest.approx(100 * (1 - wrong / len(pairs)))
    column = [score.f1 for score in found.label_scores()]
    assert np.mean(column) == pytest.approx(MacroF1()(predicted, true))


def test_agrees_with_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(7)
    labels = ["low", "middle", "high", "never"]
    true = [labels[number] for number in rng.integers(0, 3, 211)]
    predicted = [labels[number] for number in rng.integers(0, 3, 211)]
    found = ConfusionMatrix.of(predicted, true, labels=labels)
    expected = metrics.confusion_matrix(true, predicted, labels=labels)
    assert found.counts.tolist() == expected.tolist()
    theirs = metrics.precision_recall_fscore_support(
        true, predicted, labels=labels, zero_division=np.nan
    )
    ours = np.array([score[1:] for score in found.label_scores()]).T
    np.testing.assert_allclose(ours[:3], 100 * np.array(theirs[:3]))
    assert ours[3].tolist() == theirs[3].tolist()


@pytest.mark.parametrize(
    ("predicted", "true", "labels", "message"),
    [
        (["a"], [], None, "1 predicted labels and 0 true labels"),
        ([], [], None, "There is nothing to score"),
        (["a"], ["x"], ["a", "b"], "'x'.*a, b"),
    ],
)
def test_invalid_input(
    predicted: list[str], true: list[str], labels: list[str] | None, message: str
) -> None:
    with pytest.raises(RegardError, match=message):
        ConfusionMatrix.of(predicted, true, labels=labels)
