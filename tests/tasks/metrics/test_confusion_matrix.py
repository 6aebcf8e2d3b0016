"""The confusion matrix: a pencil's example, sums that must hold, and scikit-learn's numbers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.errors import RegardError
from regard.tasks.metrics.accuracy import label_counts, macro_f1
from regard.tasks.metrics.confusion_matrix import WIDEST, Confusion, Mistake

RIGHT = ["a"] * 10 + ["b"] * 5
SAID = ["a"] * 8 + ["b"] * 2 + ["a"] + ["b"] * 4


def test_the_example_of_the_docstring() -> None:
    found = Confusion.of(SAID, RIGHT)
    assert found.labels == ("a", "b")
    assert found.counts.tolist() == [[8, 2], [1, 4]]
    assert found.accuracy == pytest.approx(100 * 12 / 15)
    a, b = found.label_scores()
    assert (a.label, b.label) == ("a", "b")
    assert a[1:] == pytest.approx((100 * 8 / 9, 80.0, 100 * 16 / 19, 10))
    assert b[1:] == pytest.approx((100 * 4 / 6, 80.0, 100 * 8 / 11, 5))
    assert found.mistakes() == [Mistake("a", "b", 2), Mistake("b", "a", 1)]


def test_what_is_undefined_is_no_number() -> None:
    found = Confusion.of(["a", "a"], ["a", "b"], labels=["b", "a", "c"])
    b, _, c = found.label_scores()
    assert math.isnan(b.precision)
    assert (b.recall, b.f1, b.support) == (0.0, 0.0, 1)
    assert all(math.isnan(share) for share in c[1:4])
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


def test_the_table_of_few_labels_is_a_matrix() -> None:
    assert Confusion.of(SAID, RIGHT).table().splitlines() == [
        "label  precision  recall    F1  items",
        "a           88.9    80.0  84.2     10",
        "b           66.7    80.0  72.7      5",
        "",
        "right \\ said  a  b",
        "a             8  2",
        "b             1  4",
    ]


def test_the_table_of_many_labels_lists_mistakes() -> None:
    labels = [f"label number {number}" for number in range(WIDEST + 1)]
    text = Confusion.of([labels[1], *labels[1:]], labels).table()
    assert "right \\ said" not in text
    assert text.splitlines()[-1] == "label number 0  label number 1      1"
    # Without mistakes there is nothing to list.
    assert "taken for" not in Confusion.of(labels, labels).table()


LABELS = st.sampled_from("abcd")


@settings(database=None, deadline=None)
@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40))
def test_sums_hold_and_f1_is_that_of_the_metric(pairs: list[tuple[str, str]]) -> None:
    said, right = ([pair[side] for pair in pairs] for side in (0, 1))
    found = Confusion.of(said, right)
    assert found.counts.sum() == len(pairs)
    assert sum(score.support for score in found.label_scores()) == len(pairs)
    wrong = sum(mistake.times for mistake in found.mistakes(most=99))
    assert found.accuracy == pytest.approx(100 * (1 - wrong / len(pairs)))
    column = [score.f1 for score in found.label_scores()]
    sums = np.array(label_counts(said, [[label] for label in right])).sum(axis=0)
    assert np.mean(column) == pytest.approx(macro_f1(sums).item())


def test_the_numbers_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(7)
    labels = ["low", "middle", "high", "never"]
    right = [labels[number] for number in rng.integers(0, 3, 211)]
    said = [labels[number] for number in rng.integers(0, 3, 211)]
    found = Confusion.of(said, right, labels=labels)
    wanted = metrics.confusion_matrix(right, said, labels=labels)
    assert found.counts.tolist() == wanted.tolist()
    theirs = metrics.precision_recall_fscore_support(
        right, said, labels=labels, zero_division=np.nan
    )
    ours = np.array([score[1:] for score in found.label_scores()]).T
    np.testing.assert_allclose(ours[:3], 100 * np.array(theirs[:3]))
    assert ours[3].tolist() == theirs[3].tolist()


@pytest.mark.parametrize(
    ("said", "right", "labels", "complaint"),
    [
        (["a"], [], None, "There are 1 predicted labels and 0 right ones"),
        ([], [], None, "There is nothing to score"),
        (["a"], ["x"], ["a", "b"], "Label 'x' is not among the labels to be counted: a, b"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    said: list[str], right: list[str], labels: list[str] | None, complaint: str
) -> None:
    with pytest.raises(RegardError, match=complaint):
        Confusion.of(said, right, labels=labels)
