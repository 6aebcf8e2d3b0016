"""Calibration: an example by hand, bin edges, and agreement with scikit-learn."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.errors import RegardError
from regard.tasks.metrics.classification import Calibration, ReliabilityBin


def calibration(pairs: list[tuple[float, bool]], *, bins: int = 10) -> Calibration:
    confidences, correct = zip(*pairs, strict=True)
    return Calibration.of(np.array(confidences), np.array(correct), bins=bins)


def test_an_example() -> None:
    """Of four predictions made with 0.9 three are correct, of one with 0.3 none: 4/5·0.15 + 1/5·0.3."""
    found = calibration([(0.9, True)] * 3 + [(0.9, False), (0.3, False)], bins=2)
    assert found.expected_calibration_error == pytest.approx(0.8 * 0.15 + 0.2 * 0.3)
    assert found.brier_score == pytest.approx((3 * 0.01 + 0.81 + 0.09) / 5)
    assert found.log_loss == pytest.approx(-(3 * math.log(0.9) + math.log(0.1) + math.log(0.7)) / 5)
    assert (found.items, found.accuracy) == (5, 0.6)
    assert found.confidence == pytest.approx(0.78)
    low, high = found.bins
    assert low == ReliabilityBin(0.0, 0.5, 1, 0.3, 0.0)
    assert high == pytest.approx((0.5, 1.0, 4, 0.9, 0.75))
    assert found.describe() == (
        "mean confidence 78.0 %, accuracy 60.0 %: 18.0 points overconfident; expected "
        "calibration error 18.0 points (2 equal bins), Brier score 0.186, log loss 0.595"
    )


@pytest.mark.parametrize("bins", [3, 7, 10, 15])
def test_an_edge_belongs_to_the_bin_below_it(bins: int) -> None:
    edges = [(number / bins, True) for number in range(bins + 1)]
    counts = [each.items for each in calibration(edges, bins=bins).bins]
    # 0 has no bin below it.
    assert counts == [2] + [1] * (bins - 1)


def test_an_empty_bin_has_no_mean() -> None:
    record = calibration([(0.95, True)]).as_json()
    empty = ReliabilityBin(low=0.0, high=0.1, items=0, confidence=None, accuracy=None)
    assert record["bins"][0] == empty._asdict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_log_loss_of_a_confident_mistake_is_finite() -> None:
    found = calibration([(1.0, False)])
    assert found.log_loss == pytest.approx(52 * math.log(2))
    assert found.brier_score == found.expected_calibration_error == 1.0
    assert calibration([(1.0, True), (0.0, False)]).log_loss == pytest.approx(0.0, abs=1e-12)


PROBABILITIES = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


@settings(database=None, deadline=None)
@given(st.lists(st.tuples(PROBABILITIES, st.booleans()), min_size=1, max_size=50))
def test_bounds(pairs: list[tuple[float, bool]]) -> None:
    found = calibration(pairs)
    assert sum(each.items for each in found.bins) == len(pairs)
    # One bin sees the mean alone; more bins see at least as much.
    gap = abs(found.confidence - found.accuracy)
    assert calibration(pairs, bins=1).expected_calibration_error == pytest.approx(gap)
    assert gap - 1e-9 <= found.expected_calibration_error <= 1
    assert found.expected_calibration_error**2 <= found.brier_score + 1e-9


def test_agrees_with_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    curves = pytest.importorskip("sklearn.calibration")
    rng = np.random.default_rng(5)
    confidences = rng.random(503)
    correct = rng.random(503) < confidences**2
    found = Calibration.of(confidences, correct)
    assert found.brier_score == pytest.approx(metrics.brier_score_loss(correct, confidences))
    assert found.log_loss == pytest.approx(metrics.log_loss(correct, confidences))
    accuracy, confidence = curves.calibration_curve(correct, confidences, n_bins=10)
    assert [each.accuracy for each in found.bins] == pytest.approx(accuracy.tolist())
    assert [each.confidence for each in found.bins] == pytest.approx(confidence.tolist())


def test_single_precision() -> None:
    confidences = np.array([0.25, 0.75], dtype=np.float32)
    assert Calibration.of(confidences, np.array([False, True])).brier_score == 0.0625


@pytest.mark.parametrize(
    ("confidences", "bins", "message"),
    [
        ([], 10, "There is nothing to calibrate"),
        ([0.5, 1.5], 10, "Item 1 .*1.5.*not logits"),
        ([math.nan], 10, "Item 0 .*nan"),
        ([0.5], 0, "bins=0"),
    ],
)
def test_invalid_input(confidences: list[float], bins: int, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        Calibration.of(
            np.array(confidences, dtype=float), np.ones(len(confidences), dtype=bool), bins=bins
        )
