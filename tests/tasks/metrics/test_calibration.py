"""Calibration: a pencil's example, the edges of bins, and scikit-learn's numbers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.core.errors import RegardError
from regard.tasks.metrics.calibration import Calibration, ReliabilityBin


def calibration(pairs: list[tuple[float, bool]], *, bins: int = 10) -> Calibration:
    sure, right = zip(*pairs, strict=True)
    return Calibration.of(np.array(sure), np.array(right), bins=bins)


def test_an_example() -> None:
    """Of four predictions made with 0.9 three are right, of one with 0.3 none: 4/5·0.15 + 1/5·0.3."""
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
        "78.0 % sure on average and 60.0 % right: 18.0 points more sure than right; expected "
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


def test_who_is_sure_and_wrong_loses_much_but_not_all() -> None:
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
    mean_gap = abs(found.confidence - found.accuracy)
    assert calibration(pairs, bins=1).expected_calibration_error == pytest.approx(mean_gap)
    assert mean_gap - 1e-9 <= found.expected_calibration_error <= 1
    assert found.expected_calibration_error**2 <= found.brier_score + 1e-9


def test_the_numbers_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    curves = pytest.importorskip("sklearn.calibration")
    rng = np.random.default_rng(5)
    sure = rng.random(503)
    right = rng.random(503) < sure**2
    found = Calibration.of(sure, right)
    assert found.brier_score == pytest.approx(metrics.brier_score_loss(right, sure))
    assert found.log_loss == pytest.approx(metrics.log_loss(right, sure))
    accuracy, confidence = curves.calibration_curve(right, sure, n_bins=10)
    assert [each.accuracy for each in found.bins] == pytest.approx(accuracy.tolist())
    assert [each.confidence for each in found.bins] == pytest.approx(confidence.tolist())


def test_single_precision_is_taken() -> None:
    sure = np.array([0.25, 0.75], dtype=np.float32)
    assert Calibration.of(sure, np.array([False, True])).brier_score == 0.0625


@pytest.mark.parametrize(
    ("sure", "bins", "complaint"),
    [
        ([], 10, "There is nothing to calibrate"),
        ([0.5, 1.5], 10, "Item 1 has 1.5 as its probability.*not logits"),
        ([math.nan], 10, "Item 0 has nan as its probability"),
        ([0.5], 0, "bins=0"),
    ],
)
def test_what_is_no_probability_is_refused(sure: list[float], bins: int, complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        Calibration.of(np.array(sure, dtype=float), np.ones(len(sure), dtype=bool), bins=bins)
