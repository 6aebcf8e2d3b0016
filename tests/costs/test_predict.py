"""Estimates by sequence length, and crossovers."""

from __future__ import annotations

import pytest
from tests.factories.calibration import dummy_calibration

from regard.core.cost import AttentionShape
from regard.costs import predict as predict_module
from regard.costs.predict import (
    LENGTHS,
    EstimateByLength,
    crossover,
    estimate,
    extrapolated_time,
    quadratic,
)
from regard.costs.trace import Workload
from regard.costs.workloads import attention_workload


def retention(length: int) -> Workload:
    shape = AttentionShape(
        num_heads=2, query_length=length, key_length=length, key_dim=8, value_dim=8, causal=True
    )
    return attention_workload("retention", shape, "forward")


def test_a_long_sequence_is_extrapolated_from_shorter_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_module, "MANY_CALLS", 50)
    estimates = EstimateByLength(retention, dummy_calibration(), traced_length=256)
    extrapolated, traced = estimates.at(512), estimate(retention(512), dummy_calibration())
    assert 512 not in estimates._traces
    assert extrapolated.flops == pytest.approx(traced.flops)
    assert extrapolated.traffic_bytes == pytest.approx(traced.traffic_bytes)
    assert extrapolated.seconds == pytest.approx(traced.seconds, rel=0.05)


def test_workloads_with_few_calls_are_traced_at_any_length() -> None:
    def scaled_dot(length: int) -> Workload:
        shape = AttentionShape(query_length=length, key_length=length, key_dim=8, value_dim=8)
        return attention_workload("scaled_dot", shape, "forward")

    found = EstimateByLength(scaled_dot, None).at(4096)
    assert found.matmul_flops == 4 * 4096**2 * 8
    assert found.seconds is None


def test_no_length_is_traced_twice() -> None:
    made = []

    def make(length: int) -> Workload:
        made.append(length)
        return retention(length)

    estimates = EstimateByLength(make, None)
    first = estimates.at(100)
    assert estimates.at(100) is first
    assert made == [100]


def test_quadratic_extrapolation() -> None:
    assert quadratic((1, 2, 4), (1.0, 4.0, 16.0), 10) == pytest.approx(100)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((1.0, 2.0, 4.0), 10.0),
        ((1.0, 2.2, 4.0), 4.0 + 0.9 * 6),
        ((2.0, 2.0, 1.9), 1.9),
    ],
)
def test_time_is_extrapolated_by_flops(seconds: tuple[float, ...], expected: float) -> None:
    assert extrapolated_time((1.0, 2.0, 4.0), seconds, 10.0) == pytest.approx(expected)


def test_linear_and_quadratic_cross_where_they_are_equal() -> None:
    assert crossover(lambda n: n * n, lambda n: 1000.0 * n) == pytest.approx(1000, rel=0.01)


def test_a_candidate_that_is_always_faster_crosses_at_the_first_length() -> None:
    assert crossover(lambda n: 2.0 * n, lambda n: 1.0 * n) == LENGTHS[0]


def test_a_candidate_that_is_never_faster_has_no_crossover() -> None:
    assert crossover(lambda n: 1.0 * n, lambda n: 2.0 * n) is None


def test_the_last_of_several_crossovers_counts() -> None:
    ratios = {32: 2.0, 64: 0.5, 128: 2.0, 256: 0.5, 512: 4.0}
    found = crossover(lambda n: ratios[n], lambda _: 1.0, list(ratios))
    assert found is not None
    assert 256 < found < 512


def test_a_tie_counts_as_faster() -> None:
    assert crossover(lambda _: 1.0, lambda _: 1.0) == LENGTHS[0]
