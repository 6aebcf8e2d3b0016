"""Claims about copying and averaging: verdicts, hand-checked numbers, and deliberately wrong variants."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.claims import list_claims, selection as topic
from regard.claims.experiments.selection import (
    average_error,
    averaging_error,
    copy_error,
    copy_output_error,
    errors,
    head_weights,
    inputs_of,
    matrices_of,
    output_variance,
    plain_outputs,
    proportion,
    random_basis,
    sampled_keys,
)
from regard.core.records.claim import Finding

VERDICTS = {
    "copying-needs-a-finite-score-gap": "holds if",
    "copying-needs-infinite-scores": "fails",
    "one-query-averages-two-values": "holds if",
    "averaging-works-with-noisy-keys": "holds if",
    "one-head-has-high-variance": "holds",
    "two-heads-reduce-variance": "holds",
    "two-heads-remove-variance": "fails",
    "no-addition-yields-u-b": "holds",
    "matrices-give-the-outputs": "holds",
    "third-query-is-u-c": "fails",
}


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_verdicts() -> None:
    claims = list_claims("selection")
    assert {claim.name: found(claim).verdict for claim in claims} == VERDICTS
    assert {claim.name for claim in claims if claim.known_false} == {
        name for name, verdict in VERDICTS.items() if verdict == "fails"
    }


@pytest.mark.parametrize(
    ("claim", "changes", "verdict"),
    [
        (topic.copying_needs_infinite_scores, {"largest_gap": 9.0}, "holds"),
        (topic.copying_needs_a_finite_score_gap, {"n": 1}, "holds"),
        (topic.copying_needs_a_finite_score_gap, {"error": 0.99}, "holds if"),
        (topic.one_query_averages_two_values, {"n": 2}, "holds"),
        (topic.averaging_works_with_noisy_keys, {"alpha": 0.0}, "holds if"),
        (topic.averaging_works_with_noisy_keys, {"alpha": 1.0}, "fails"),
        (topic.one_head_has_high_variance, {"size": 0.5}, "fails"),
        (topic.matrices_give_the_outputs, {"second": 6}, "fails"),
        (topic.third_query_is_u_c, {"row": 2}, "holds"),
    ],
)
def test_settings_change_the_verdict(claim: Any, changes: Any, verdict: str) -> None:
    assert found(claim, **changes).verdict == verdict


def test_a_wrong_formula_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    # One key too many among the others.
    monkeypatch.setattr(topic, "copy_error", lambda gap, n: copy_error(gap, n=n + 1))
    monkeypatch.setattr(topic, "average_error", lambda size, n: average_error(size, n=n + 1))
    assert found(topic.copying_needs_a_finite_score_gap).verdict == "fails"
    assert found(topic.one_query_averages_two_values).verdict == "fails"


def test_copying() -> None:
    # Scores ln 3 and 0 for two keys: weights 3/4 and 1/4.
    assert copy_error(math.log(3), n=2) == pytest.approx(0.25)
    values = found(topic.copying_needs_a_finite_score_gap, n=2, error=0.25).values
    assert values["found"] == pytest.approx(math.log(3))


def test_averaging() -> None:
    # n = 4, C = ln 3: weights 3/8, 3/8, 1/8, 1/8.
    assert average_error(math.log(3), n=4) == pytest.approx(0.25)
    values = found(topic.one_query_averages_two_values, n=4, error=0.25).values
    assert values["found"] == pytest.approx(math.log(3))


def test_large_queries_amplify_noise() -> None:
    values = found(topic.averaging_works_with_noisy_keys).values
    assert float(values["last_error"]) > 10 * float(values["min_error"])
    # For large C the error is |tanh(C√α z)|, of mean C√α √(2/π) as long as that is small.
    keys = sampled_keys(n=8, alpha=1e-4, varying_length=False, samples=4000, seed=1).keys
    mean = float(averaging_error(head_weights(keys, of_a=10.0, of_b=10.0)).mean())
    assert mean == pytest.approx(10 * 0.01 * math.sqrt(2 / math.pi), rel=0.05)
    noiseless = sampled_keys(n=8, alpha=0.0, varying_length=False, samples=1, seed=1).keys
    assert float(averaging_error(head_weights(noiseless, of_a=1e3, of_b=1e3))) == 0.0


def test_varying_length_has_variance_one_half() -> None:
    lengths = sampled_keys(n=4, alpha=0.0, varying_length=True, samples=20000, seed=2).lengths
    assert float(lengths.mean()) == pytest.approx(1, abs=0.02)
    assert float(lengths.var()) == pytest.approx(0.5, abs=0.02)


def test_weight_of_a_varying_key_is_a_sigmoid() -> None:
    samples = sampled_keys(n=2, alpha=0.0, varying_length=True, samples=50, seed=0)
    weights = head_weights(samples.keys, of_a=3.0, of_b=3.0)
    torch.testing.assert_close(weights[:, 0], torch.sigmoid(3 * (samples.lengths - 1)))


def test_equal_variance_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_one_head(keys: torch.Tensor, *, size: float) -> torch.Tensor:
        return head_weights(keys, of_a=size, of_b=size)

    monkeypatch.setattr(topic, "two_head_weights", as_one_head)
    assert found(topic.two_heads_reduce_variance).verdict == "fails"


def test_keys_of_constant_length(monkeypatch: pytest.MonkeyPatch) -> None:
    def constant(**options: Any) -> Any:
        return sampled_keys(**{**options, "varying_length": False})

    monkeypatch.setattr(topic, "sampled_keys", constant)
    assert found(topic.two_heads_remove_variance).verdict == "holds"
    assert found(topic.one_head_has_high_variance).verdict == "fails"


def test_proportion_of_negative_lengths() -> None:
    values = found(topic.two_heads_remove_variance).values
    assert values["expected"] == pytest.approx(0.0786, abs=1e-4)  # Φ(−√2)
    assert float(values["low"]) < float(values["missed"]) < float(values["high"])
    assert values["negative"] == pytest.approx(0.0786, abs=0.015)


def test_output_variance_and_proportion() -> None:
    assert output_variance(torch.tensor([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(1.0)
    assert proportion(torch.tensor([True, False, False, False])).share == 0.25


def test_plain_outputs_of_the_worked_example() -> None:
    outputs = plain_outputs(inputs_of(random_basis(3.0, seed=0)))
    u = random_basis(3.0, seed=0)
    # c₂ = ((u_d + u_b) + e⁹ u_a + (u_c + u_b)) / (e⁹ + 2)
    expected = (u.d + 2 * u.b + u.c + math.exp(9) * u.a) / (math.exp(9) + 2)
    torch.testing.assert_close(outputs[1], expected)


def test_outputs_close_to_u_b_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "distance_to_u_b", lambda *_, **__: 0.1)
    assert found(topic.no_addition_yields_u_b).verdict == "fails"


def test_closed_form_errors() -> None:
    for beta in (0.5, 1.0, 2.5):
        first, second = errors(beta, seed=3)
        assert first == pytest.approx(math.sqrt(2) * beta / (math.exp(beta**2) + 2))
        assert second == pytest.approx(math.sqrt(5) * beta / (math.exp(beta**2) + 2))


def test_queries() -> None:
    u = random_basis(2.0, seed=0)
    matrix = matrices_of(u, squared=4.0).query
    for x, expected in zip(inputs_of(u), (u.d, u.c, torch.zeros_like(u.a)), strict=True):
        torch.testing.assert_close(matrix @ x, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0])
def test_constant_errors_fail(constant: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bisection finds no threshold."""
    monkeypatch.setattr(topic, "copy_error", lambda *_, **__: constant)
    monkeypatch.setattr(topic, "average_error", lambda *_, **__: constant)
    for claim in (topic.copying_needs_a_finite_score_gap, topic.one_query_averages_two_values):
        finding = found(claim)
        assert finding.verdict == "fails"
        assert finding.values["found"] == ("none" if constant else "any")
        assert "formula 9" in finding.counter_example or "formula 8" in finding.counter_example


def test_finite_gap_on_the_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two keys and a gap of ln 3 the output is 3/4: e = 1/4."""
    assert copy_output_error(math.log(3), n=2) == pytest.approx(0.25)
    finding = found(topic.copying_needs_infinite_scores)
    assert finding.values["gap"] == pytest.approx(math.log(15 * 999))
    assert finding.values["distance"] == pytest.approx(0.001)
    assert "the key scores 9.615 and all others 0" in finding.counter_example
    monkeypatch.setattr(topic, "copy_output_error", lambda *_, **__: 0.01)
    assert found(topic.copying_needs_infinite_scores).verdict == "holds"


def test_noise_without_effect_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a large C did not amplify the noise, half of the statement would be wrong."""
    monkeypatch.setattr(topic, "mean_error", lambda _keys, c: 1.0 if c < 2 else 0.01)
    finding = found(topic.averaging_works_with_noisy_keys)
    assert finding.verdict == "fails"
    assert "no C is too large" in finding.reason
    assert found(topic.averaging_works_with_noisy_keys, alpha=0.0).verdict == "holds if"


@pytest.mark.parametrize("alpha", [1e-12, 1e-6])
def test_noise_limit_scales_with_its_size(alpha: float) -> None:
    """The limit depends on 2C√α only."""
    product = found(topic.averaging_works_with_noisy_keys, alpha=alpha).values["high_times_noise"]
    assert product == pytest.approx(0.25, abs=0.02)


def test_samples_with_zero_weights_are_finite() -> None:
    values = found(topic.one_head_has_high_variance, alpha=10.0, size=1e4, n=32, samples=200).values
    assert all(math.isfinite(float(value)) for value in values.values())
