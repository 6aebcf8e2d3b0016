"""Balanced accuracy, AUC and calibration error: pencil examples and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from regard.core.errors import RegardError
from regard.tasks.metrics import AUC, METRICS, BalancedAccuracy, CalibrationError, metric_class
from regard.tasks.metrics.metric import ProbabilityMetric

GENERATOR = np.random.default_rng(0)


def probabilities(items: int, classes: int, *, digits: int = 9) -> np.ndarray:
    scores = np.exp(GENERATOR.normal(size=(items, classes))).round(digits)
    return scores / scores.sum(axis=1, keepdims=True)


def test_balanced_accuracy_by_hand() -> None:
    # 8 of 10 a, 1 of 2 b: (80 % + 50 %) / 2
    predictions = ["a"] * 8 + ["b"] * 2 + ["a", "b"]
    references = ["a"] * 10 + ["b"] * 2
    assert BalancedAccuracy()(predictions, references) == pytest.approx(65.0)


def test_balanced_accuracy_is_that_of_scikit_learn() -> None:
    for classes in (2, 5):
        true, predicted = GENERATOR.integers(classes, size=(2, 60))
        expected = 100 * balanced_accuracy_score(true, predicted)
        assert BalancedAccuracy()(
            predicted.astype(str).tolist(), true.astype(str).tolist()
        ) == pytest.approx(expected)


def test_balanced_accuracy_leaves_out_labels_that_do_not_occur() -> None:
    assert BalancedAccuracy()(["a", "z"], ["a", "a"]) == 50.0


def test_auc_by_hand() -> None:
    # Of the six pairs of a positive and a negative, 0.8 > all three, 0.4 > 0.3 and = 0.4: 4.5 of 6.
    second = np.array([0.8, 0.4, 0.3, 0.4, 0.6])
    found = AUC().of_probabilities(
        np.stack([1 - second, second], axis=1), np.array([1, 1, 0, 0, 0])
    )
    assert found == pytest.approx(4.5 / 6)


@pytest.mark.parametrize("digits", [9, 1])  # with ties
def test_auc_is_that_of_scikit_learn(digits: int) -> None:
    targets = GENERATOR.integers(2, size=80)
    scores = probabilities(80, 2, digits=digits)
    expected = roc_auc_score(targets, scores[:, 1])
    assert AUC().of_probabilities(scores, targets) == pytest.approx(expected, abs=1e-12)
    targets = np.arange(90) % 4
    scores = probabilities(90, 4, digits=digits)
    expected = roc_auc_score(targets, scores, multi_class="ovr")
    assert AUC().of_probabilities(scores, targets) == pytest.approx(expected, abs=1e-12)


def test_auc_without_one_of_the_classes() -> None:
    scores = probabilities(30, 3)
    assert math.isnan(AUC().of_probabilities(scores[:, :2], np.zeros(30, dtype=np.int64)))
    assert math.isnan(AUC().of_probabilities(scores[:0], np.zeros(0, dtype=np.int64)))
    targets = np.arange(30) % 2
    parts = [roc_auc_score(targets == label, scores[:, label]) for label in (0, 1)]
    assert AUC().of_probabilities(scores, targets) == pytest.approx(np.mean(parts))
    # Items of an unknown label are left out.
    unknown = np.where(np.arange(30) < 10, -1, targets)
    expected = AUC().of_probabilities(scores[10:], targets[10:])
    assert AUC().of_probabilities(scores, unknown) == expected


def test_calibration_error_by_hand() -> None:
    # Confidence 0.8 twice, one of the two correct: |0.8 − 0.5| = 30 points.
    scores = np.array([[0.8, 0.2], [0.2, 0.8]])
    assert CalibrationError().of_probabilities(scores, np.array([0, 0])) == pytest.approx(30.0)


def test_metrics_of_probabilities_have_no_items() -> None:
    for name in METRICS:
        kind = metric_class(name)
        if issubclass(kind, ProbabilityMetric):
            assert not kind.is_itemwise
            with pytest.raises(RegardError, match="not a function of the predictions"):
                kind().statistics(["a"], ["a"])
