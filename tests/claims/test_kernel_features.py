"""Kernels: every verdict, figures by pencil, and what the verdicts turn into when something is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy

from regard.claims import claims_of, kernel_costs, kernel_features as kernels
from regard.claims.experiments import kernels as kernel_features, kernels as taylor_distance
from regard.claims.experiments.kernels import (
    MemoryShape,
    adversarial_scores,
    at_ones,
    dot,
    first_negative,
    measured_crossings,
    numbers_held,
    products_of_both,
    seconds_by_length,
    taylor_features,
    vectors,
    worst_error,
)
from regard.core.errors import RegardError
from regard.core.records.claim import Finding

VERDICTS = {
    "taylor-terms-are-a-dot-product": "holds",
    "outer-product-gives-the-quadratic-term": "fails",
    "taylor-needs-so-many-features": "holds",
    "taylor-needs-a-power-of-features": "fails",
    "taylor-attention-approaches-softmax": "holds",
    "taylor-attention-is-near-softmax": "holds if",
    "taylor-weights-are-not-negative": "holds if",
    "kernel-attention-is-linear-in-length": "holds",
    "kernel-attention-is-linear-in-width": "fails",
    "squared-kernel-is-a-dot-product": "holds",
    "squared-kernel-without-the-root": "fails",
    "quadratic-kernel-takes-its-products": "holds",
    "kernel-overtakes-softmax-in-operations": "holds",
    "softmax-memory-is-quadratic-in-length": "holds",
    "softmax-memory-is-quadratic-times-width": "fails",
}


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_every_verdict_that_no_clock_decides() -> None:
    claims = {
        claim.name: claim
        for topic in ("kernel features", "kernel costs")
        for claim in claims_of(topic)
    }
    assert set(claims) - set(VERDICTS) == {"kernel-overtakes-softmax-on-the-clock"}
    assert {name: found(claims[name]).verdict for name in VERDICTS} == VERDICTS
    for name, verdict in VERDICTS.items():
        assert claims[name].marked_wrong == (verdict == "fails")


@pytest.mark.parametrize(
    ("claim", "changes", "verdict"),
    [
        (kernels.outer_product_gives_the_quadratic_term, {"divisor": 2}, "holds"),
        (kernels.taylor_needs_a_power_of_features, {"terms": 1}, "holds"),
        (kernels.taylor_attention_approaches_softmax, {"norm": 9.0}, "fails"),
        (kernels.taylor_weights_are_not_negative, {"least_terms": 3, "most_terms": 3}, "holds"),
        (kernel_costs.kernel_attention_is_linear_in_length, {"form": "quadratic"}, "fails"),
        (kernel_costs.kernel_attention_is_linear_in_width, {"terms": 2}, "holds"),
        (kernels.squared_kernel_without_the_root, {"linear_factor": 2}, "holds"),
        (kernel_costs.kernel_overtakes_softmax_in_operations, {"power": 3, "widest": 8}, "fails"),
    ],
)
def test_other_parameters_turn_the_verdict(claim: Any, changes: Any, verdict: str) -> None:
    assert found(claim, **changes).verdict == verdict


def test_features_without_their_factorials_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(x: Any, *, terms: int) -> list[Any]:
        return [sympy.Integer(1), *x, *(one * other for one in x for other in x)][: 1 + 2 + 4]

    monkeypatch.setattr(kernels, "taylor_features", bare)
    finding = found(kernels.taylor_terms_are_a_dot_product, width=2, terms=3)
    assert finding.verdict == "fails"
    assert "k1*k2*q1*q2" in str(finding.figures["difference"])


def test_numbers_that_miss_the_series_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "feature_error", lambda *_, **__: 1e-9)
    assert found(kernels.taylor_terms_are_a_dot_product, width=2, terms=2).verdict == "fails"
    assert found(kernels.squared_kernel_is_a_dot_product, width=2).verdict == "fails"


def test_taylor_features_by_pencil() -> None:
    q, k = vectors(2)
    product = dot(taylor_features(q, terms=3), taylor_features(k, terms=3))
    # q·k = 2 at ones: 1 + 2 + 2²/2.
    assert at_ones(product) == pytest.approx(5)


def test_feature_counts_by_pencil(monkeypatch: pytest.MonkeyPatch) -> None:
    # 1, x, y, x², xy, (yx), y²
    counts = kernel_features.feature_counts(width=2, terms=3)
    assert counts == {"tensor": 7, "symmetric": 6, "made": 6, "rank": 6}
    monkeypatch.setattr(kernels, "feature_counts", lambda **_: {**counts, "made": 7})
    assert found(kernels.taylor_needs_so_many_features).verdict == "fails"


def test_how_far_one_term_reaches_by_pencil() -> None:
    # Uniform weights against softmax of scores ±R over two keys: both are off by tanh(R)/2.
    reach = found(
        kernels.taylor_attention_is_near_softmax, terms=1, error=0.1, keys=2, most_terms=2
    ).figures["reach"]
    assert reach == pytest.approx(math.atanh(0.1), abs=1e-5)


def test_the_reach_is_where_the_error_is_met() -> None:
    figures = found(kernels.taylor_attention_is_near_softmax).figures
    reach = float(figures["reach"])
    assert worst_error(terms=3, reach=0.99 * reach, keys=8) < 0.01
    assert worst_error(terms=3, reach=1.01 * reach, keys=8) > 0.01
    reaches = [float(figures[f"reach_{k}"]) for k in range(1, 9)]
    assert reaches == sorted(reaches)


def test_adversarial_scores_stay_within_reach() -> None:
    scores = adversarial_scores(1.5, keys=3)
    assert scores.abs().max() == 1.5
    assert len(scores.unique(dim=0)) > 50


def test_scores_at_which_series_turn_negative() -> None:
    assert first_negative(2) == pytest.approx(-1)  # 1 + s
    real = [root.real for root in np.roots([1 / 6, 1 / 2, 1, 1]) if abs(root.imag) < 1e-9]
    assert first_negative(4) == pytest.approx(real[0])
    assert first_negative(5) is None


def test_products_of_a_call_by_pencil(monkeypatch: pytest.MonkeyPatch) -> None:
    # N = 3, D = 2, M = 5: 6 features, and 2 · 2 · 3 · 6 · 5 products; softmax 2 · 9 · (2 + 5).
    assert products_of_both(length=3, width=2, value_width=5) == (360, 126)
    monkeypatch.setattr(
        kernel_costs, "products_of_both", lambda *, length, **_: (length**2, length)
    )
    assert found(kernel_costs.quadratic_kernel_takes_its_products).verdict == "fails"


def made_up_seconds(lengths: list[int], factor: float) -> dict[str, list[list[float]]]:
    """Of a kernel that crosses softmax attention at `factor`, give or take a fifth."""
    return {
        "dot": [[float(n * n)] * 3 for n in lengths],
        "polynomial": [[n * factor * off for off in (0.8, 1.0, 1.2)] for n in lengths],
    }


@pytest.mark.parametrize(
    ("times_d_squared", "verdict"), [(1.0, "holds"), (3.0, "holds if"), (1e6, "fails")]
)
def test_the_clock_decides_by_where_times_cross(
    times_d_squared: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(*, lengths: list[int], **_: Any) -> dict[str, list[list[float]]]:
        return made_up_seconds(lengths, times_d_squared * 8**2)

    monkeypatch.setattr(kernel_costs, "seconds_by_length", seconds)
    finding = found(kernel_costs.kernel_overtakes_softmax_on_the_clock, width=8, rounds=3)
    assert finding.verdict == verdict
    if verdict != "fails":
        assert finding.figures["ratio"] == pytest.approx(times_d_squared, rel=0.05)


def test_rounds_that_disagree_do_not_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three rounds were slow: they saw no crossing."""

    def seconds(*, lengths: list[int], **_: Any) -> dict[str, list[list[float]]]:
        slow = [[64.0 * n, 1e6 * n, 1e6 * n] for n in lengths]
        return {"dot": [[float(n * n)] * 3 for n in lengths], "polynomial": slow}

    monkeypatch.setattr(kernel_costs, "seconds_by_length", seconds)
    finding = found(kernel_costs.kernel_overtakes_softmax_on_the_clock, width=8, rounds=3)
    assert finding.verdict == "holds if"
    assert finding.figures["crossed"] == 1
    assert "in 2 rounds not up to N = 512" in finding.boundary


def test_times_are_those_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others take of the machine does not count: a clock that stands still gives no time."""
    monkeypatch.setattr("regard.claims.engine.time.process_time", lambda: 3.0)
    seconds = seconds_by_length(width=2, heads=1, lengths=[4], rounds=2)
    assert seconds == {"dot": [[0.0, 0.0]], "polynomial": [[0.0, 0.0]]}


def test_both_are_really_timed() -> None:
    seconds = seconds_by_length(width=2, heads=1, lengths=[4, 8], rounds=2)
    assert {name: np.shape(times) for name, times in seconds.items()} == {
        "dot": (2, 2),
        "polynomial": (2, 2),
    }
    assert all(value > 0 for times in seconds.values() for row in times for value in row)


def test_crossings_of_single_rounds() -> None:
    lengths = [16, 32, 64, 128]
    crossings = measured_crossings(made_up_seconds(lengths, 50.0), lengths=lengths)
    assert crossings == [40, 50, 60]


def test_memory_by_pencil() -> None:
    few, many = (numbers_held(MemoryShape(32, 4, m)) for m in (256, 512))
    # Twice N numbers a unit of M: a value and an output.
    assert many - few == 2 * 32 * 256


def test_memory_of_a_tensor_of_pairs_and_values_would_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shares(*, with_values: bool, **_: int) -> dict[str, float]:
        return {"one": 1.2, "other": 1.5} if with_values else {"one": 1.2, "other": 15.0}

    monkeypatch.setattr(kernel_costs, "memory_shares", shares)
    assert found(kernel_costs.softmax_memory_is_quadratic_in_length).verdict == "fails"
    assert found(kernel_costs.softmax_memory_is_quadratic_times_width).verdict == "holds"


@pytest.mark.parametrize(("error", "verdict"), [(3.0, "fails"), (1.0, "holds")])
def test_a_reach_without_a_bound_or_of_nothing(
    error: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if weights were off by so much whatever the scores; 1.5 is allowed."""
    monkeypatch.setattr(taylor_distance, "worst_error", lambda **_: error)
    assert found(kernels.taylor_attention_is_near_softmax, error=1.5).verdict == verdict


def test_what_the_reach_was_searched_among_is_said() -> None:
    finding = found(kernels.taylor_attention_is_near_softmax)
    assert "one of 17 places" in finding.because
    assert "of the scores tried" in finding.boundary


def test_series_of_many_terms_turn_once() -> None:
    """Between them lie 0.2785 for every term more, by the zeros of large K."""
    fewer, more = first_negative(46), first_negative(48)
    assert fewer is not None
    assert more is not None
    assert fewer - more == pytest.approx(2 * 0.2785, abs=0.01)
    assert first_negative(47) is None
    assert found(kernels.taylor_weights_are_not_negative, most_terms=48).figures["turning"] == 24


def test_series_that_cannot_be_told_are_refused() -> None:
    with pytest.raises(RegardError, match=r"most_terms=80: .* from 1 to 48"):
        kernels.taylor_weights_are_not_negative.run(most_terms=80)
    with pytest.raises(RegardError, match="least_terms=9 is above most_terms=8"):
        kernels.taylor_weights_are_not_negative.run(least_terms=9)


def test_the_reasons_follow_the_verdict() -> None:
    right = found(kernels.squared_kernel_without_the_root, linear_factor=2)
    assert "is 0: the middle term is 2 q·k, and so it should be" in right.because
    assert "should be 2 q·k" in found(kernels.squared_kernel_without_the_root).because


def test_counts_that_do_not_cross_are_no_figures() -> None:
    finding = found(kernel_costs.kernel_overtakes_softmax_in_operations, power=3, widest=8)
    assert finding.figures == {}
    assert "none up to 32 (D = 4)" in finding.counter_example
    assert "about D³/6 features" in finding.because


def test_about_means_within_the_factor_and_no_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kernel_costs, "counted_crossing_of", lambda *, width, **_: int(0.47 * width**2)
    )
    assert found(kernel_costs.kernel_overtakes_softmax_in_operations, near=2.0).verdict == "fails"
    assert found(kernel_costs.kernel_overtakes_softmax_in_operations, near=2.5).verdict == "holds"
