"""Claims about kernel attention: verdicts, hand-checked numbers, and deliberately wrong variants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy

from regard.claims import kernel_costs, kernel_features as kernels, list_claims
from regard.claims.experiments import kernels as experiments
from regard.claims.experiments.kernels import (
    MemoryShape,
    adversarial_scores,
    at_ones,
    dot,
    first_negative_score,
    kernel_and_softmax_flops,
    measured_crossings,
    peak_numbers,
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
    "taylor-feature-count": "holds",
    "taylor-feature-count-is-a-power": "fails",
    "taylor-attention-converges-to-softmax": "holds",
    "taylor-attention-approximates-softmax": "holds if",
    "taylor-weights-are-nonnegative": "holds if",
    "kernel-attention-is-linear-in-length": "holds",
    "kernel-attention-is-linear-in-width": "fails",
    "squared-kernel-is-a-dot-product": "holds",
    "squared-kernel-without-sqrt2": "fails",
    "quadratic-kernel-matmul-flops": "holds",
    "quadratic-kernel-beats-softmax-in-flops": "holds",
    "softmax-memory-is-quadratic-in-length": "holds",
    "softmax-memory-is-quadratic-times-width": "fails",
}


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_verdicts_that_need_no_timing() -> None:
    claims = {
        claim.name: claim
        for topic in ("kernel features", "kernel costs")
        for claim in list_claims(topic)
    }
    assert set(claims) - set(VERDICTS) == {"quadratic-kernel-beats-softmax-in-time"}
    assert {name: found(claims[name]).verdict for name in VERDICTS} == VERDICTS
    for name, verdict in VERDICTS.items():
        assert claims[name].known_false == (verdict == "fails")


@pytest.mark.parametrize(
    ("claim", "changes", "verdict"),
    [
        (kernels.outer_product_gives_the_quadratic_term, {"divisor": 2}, "holds"),
        (kernels.taylor_feature_count_is_a_power, {"terms": 1}, "holds"),
        (kernels.taylor_attention_converges_to_softmax, {"norm": 9.0}, "fails"),
        (kernels.taylor_weights_are_nonnegative, {"min_terms": 3, "max_terms": 3}, "holds"),
        (kernel_costs.kernel_attention_is_linear_in_length, {"form": "quadratic"}, "fails"),
        (kernel_costs.kernel_attention_is_linear_in_width, {"terms": 2}, "holds"),
        (kernels.squared_kernel_without_sqrt2, {"linear_factor": 2}, "holds"),
        (kernel_costs.quadratic_kernel_beats_softmax_in_flops, {"power": 3, "widest": 8}, "fails"),
    ],
)
def test_settings_change_the_verdict(claim: Any, changes: Any, verdict: str) -> None:
    assert found(claim, **changes).verdict == verdict


def test_features_without_factorials_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(x: Any, *, terms: int) -> list[Any]:
        return [sympy.Integer(1), *x, *(one * other for one in x for other in x)][: 1 + 2 + 4]

    monkeypatch.setattr(kernels, "taylor_features", bare)
    finding = found(kernels.taylor_terms_are_a_dot_product, key_dim=2, terms=3)
    assert finding.verdict == "fails"
    assert "k1*k2*q1*q2" in str(finding.values["difference"])


def test_inexact_features_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "feature_error", lambda *_, **__: 1e-9)
    assert found(kernels.taylor_terms_are_a_dot_product, key_dim=2, terms=2).verdict == "fails"
    assert found(kernels.squared_kernel_is_a_dot_product, key_dim=2).verdict == "fails"


def test_taylor_features() -> None:
    q, k = vectors(2)
    product = dot(taylor_features(q, terms=3), taylor_features(k, terms=3))
    # q·k = 2 at ones: 1 + 2 + 2²/2.
    assert at_ones(product) == pytest.approx(5)


def test_feature_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    # 1, x, y, x², xy, (yx), y²
    counts = experiments.feature_counts(key_dim=2, terms=3)
    assert counts == {"tensor": 7, "symmetric": 6, "made": 6, "rank": 6}
    monkeypatch.setattr(kernels, "feature_counts", lambda **_: {**counts, "made": 7})
    assert found(kernels.taylor_feature_count).verdict == "fails"


def test_norm_bound_of_one_term() -> None:
    # Uniform weights against softmax of scores ±R over two keys: both errors are tanh(R)/2.
    bound = found(
        kernels.taylor_attention_approximates_softmax, terms=1, error=0.1, keys=2, max_terms=2
    ).values["norm_bound"]
    assert bound == pytest.approx(math.atanh(0.1), abs=1e-5)


def test_norm_bound_is_tight() -> None:
    values = found(kernels.taylor_attention_approximates_softmax).values
    bound = float(values["norm_bound"])
    assert worst_error(terms=3, norm_bound=0.99 * bound, keys=8) < 0.01
    assert worst_error(terms=3, norm_bound=1.01 * bound, keys=8) > 0.01
    bounds = [float(values[f"norm_bound_{k}"]) for k in range(1, 9)]
    assert bounds == sorted(bounds)


def test_adversarial_scores_stay_within_the_bound() -> None:
    scores = adversarial_scores(1.5, keys=3)
    assert scores.abs().max() == 1.5
    assert len(scores.unique(dim=0)) > 50


def test_first_negative_scores() -> None:
    assert first_negative_score(2) == pytest.approx(-1)  # 1 + s
    real = [root.real for root in np.roots([1 / 6, 1 / 2, 1, 1]) if abs(root.imag) < 1e-9]
    assert first_negative_score(4) == pytest.approx(real[0])
    assert first_negative_score(5) is None


def test_matmul_flops_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    # N = 3, D = 2, M = 5: 6 features, 2 · 2 · 3 · 6 · 5 FLOPs; softmax 2 · 9 · (2 + 5).
    assert kernel_and_softmax_flops(length=3, key_dim=2, value_dim=5) == (360, 126)
    monkeypatch.setattr(
        kernel_costs, "kernel_and_softmax_flops", lambda *, length, **_: (length**2, length)
    )
    assert found(kernel_costs.quadratic_kernel_matmul_flops).verdict == "fails"


def synthetic_seconds(lengths: list[int], factor: float) -> dict[str, list[list[float]]]:
    """Times that cross at a length of `factor`, plus or minus a fifth."""
    return {
        "dot": [[float(n * n)] * 3 for n in lengths],
        "polynomial": [[n * factor * off for off in (0.8, 1.0, 1.2)] for n in lengths],
    }


@pytest.mark.parametrize(
    ("times_d_squared", "verdict"), [(1.0, "holds"), (3.0, "holds if"), (1e6, "fails")]
)
def test_timing_claim_is_decided_by_the_crossing(
    times_d_squared: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(*, lengths: list[int], **_: Any) -> dict[str, list[list[float]]]:
        return synthetic_seconds(lengths, times_d_squared * 8**2)

    monkeypatch.setattr(kernel_costs, "seconds_by_length", seconds)
    finding = found(kernel_costs.quadratic_kernel_beats_softmax_in_time, key_dim=8, rounds=3)
    assert finding.verdict == verdict
    if verdict != "fails":
        assert finding.values["ratio"] == pytest.approx(times_d_squared, rel=0.05)


def test_rounds_without_a_crossing_do_not_refute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three rounds were slow and have no crossing."""

    def seconds(*, lengths: list[int], **_: Any) -> dict[str, list[list[float]]]:
        slow = [[64.0 * n, 1e6 * n, 1e6 * n] for n in lengths]
        return {"dot": [[float(n * n)] * 3 for n in lengths], "polynomial": slow}

    monkeypatch.setattr(kernel_costs, "seconds_by_length", seconds)
    finding = found(kernel_costs.quadratic_kernel_beats_softmax_in_time, key_dim=8, rounds=3)
    assert finding.verdict == "holds if"
    assert finding.values["crossed"] == 1
    assert "in 2 rounds not up to N = 512" in finding.condition


def test_times_are_cpu_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes do not count: with a constant process clock, times are zero."""
    monkeypatch.setattr("regard.claims.engine.time.process_time", lambda: 3.0)
    seconds = seconds_by_length(key_dim=2, heads=1, lengths=[4], rounds=2)
    assert seconds == {"dot": [[0.0, 0.0]], "polynomial": [[0.0, 0.0]]}


def test_timing_of_both_mechanisms() -> None:
    seconds = seconds_by_length(key_dim=2, heads=1, lengths=[4, 8], rounds=2)
    assert {name: np.shape(times) for name, times in seconds.items()} == {
        "dot": (2, 2),
        "polynomial": (2, 2),
    }
    assert all(value > 0 for times in seconds.values() for row in times for value in row)


def test_crossings_per_round() -> None:
    lengths = [16, 32, 64, 128]
    crossings = measured_crossings(synthetic_seconds(lengths, 50.0), lengths=lengths)
    assert crossings == [40, 50, 60]


def test_peak_memory() -> None:
    few, many = (peak_numbers(MemoryShape(32, 4, m)) for m in (256, 512))
    # 2N numbers per value dimension: a value and an output.
    assert many - few == 2 * 32 * 256


def test_memory_verdicts_follow_the_ratios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ratios(*, with_values: bool, **_: int) -> dict[str, float]:
        return {"one": 1.2, "other": 1.5} if with_values else {"one": 1.2, "other": 15.0}

    monkeypatch.setattr(kernel_costs, "memory_ratios", ratios)
    assert found(kernel_costs.softmax_memory_is_quadratic_in_length).verdict == "fails"
    assert found(kernel_costs.softmax_memory_is_quadratic_times_width).verdict == "holds"


@pytest.mark.parametrize(("error", "verdict"), [(3.0, "fails"), (1.0, "holds")])
def test_norm_bound_of_the_whole_range_or_zero(
    error: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a constant error; 1.5 is the tolerance."""
    monkeypatch.setattr(experiments, "worst_error", lambda **_: error)
    assert found(kernels.taylor_attention_approximates_softmax, error=1.5).verdict == verdict


def test_reason_states_the_search_grid() -> None:
    finding = found(kernels.taylor_attention_approximates_softmax)
    assert "one of 17 grid points" in finding.reason
    assert "for the scores tried" in finding.condition


def test_first_negative_scores_of_many_terms() -> None:
    """The zero moves by 0.2785 per term for large K."""
    fewer, more = first_negative_score(46), first_negative_score(48)
    assert fewer is not None
    assert more is not None
    assert fewer - more == pytest.approx(2 * 0.2785, abs=0.01)
    assert first_negative_score(47) is None
    assert found(kernels.taylor_weights_are_nonnegative, max_terms=48).values["negative"] == 24


def test_errors_for_numbers_of_terms() -> None:
    with pytest.raises(RegardError, match=r"max_terms=80: .* from 1 to 48"):
        kernels.taylor_weights_are_nonnegative.run(max_terms=80)
    with pytest.raises(RegardError, match=r"min_terms=9 .* max_terms=8"):
        kernels.taylor_weights_are_nonnegative.run(min_terms=9)


def test_reasons_follow_the_verdict() -> None:
    right = found(kernels.squared_kernel_without_sqrt2, linear_factor=2)
    assert "is 0: the linear term is 2 q·k, as required" in right.reason
    assert "should be 2 q·k" in found(kernels.squared_kernel_without_sqrt2).reason


def test_flops_that_do_not_cross() -> None:
    finding = found(kernel_costs.quadratic_kernel_beats_softmax_in_flops, power=3, widest=8)
    assert finding.values == {}
    assert "none up to 32 (D = 4)" in finding.counter_example
    assert "about D³/6 features" in finding.reason


def test_crossing_must_be_within_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kernel_costs, "polynomial_crossing", lambda *, key_dim, **_: int(0.47 * key_dim**2)
    )
    assert (
        found(kernel_costs.quadratic_kernel_beats_softmax_in_flops, factor=2.0).verdict == "fails"
    )
    assert (
        found(kernel_costs.quadratic_kernel_beats_softmax_in_flops, factor=2.5).verdict == "holds"
    )
