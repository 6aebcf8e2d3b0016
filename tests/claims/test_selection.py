"""One head, two heads and the worked example: verdicts, figures by pencil, and broken variants."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.claims import claims_of, selection as topic
from regard.claims.experiments.selection import (
    average_error,
    copy_distance,
    copy_error,
    distance_from_half,
    drawn_basis,
    drawn_keys,
    errors,
    head_weights,
    inputs_of,
    matrices_of,
    plain_outputs,
    share_of,
    spread,
)
from regard.core.records.claim import Finding

VERDICTS = {
    "copying-takes-a-finite-gap": "holds if",
    "copying-takes-infinite-scores": "fails",
    "one-query-averages-two-values": "holds if",
    "noisy-keys-are-averaged": "holds if",
    "one-head-swings": "holds",
    "two-heads-swing-less": "holds",
    "two-heads-never-miss": "fails",
    "no-addition-yields-u-b": "holds",
    "matrices-give-the-outputs": "holds",
    "third-query-is-u-c": "fails",
}


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_every_verdict() -> None:
    claims = claims_of("selecting and averaging")
    assert {claim.name: found(claim).verdict for claim in claims} == VERDICTS
    assert {claim.name for claim in claims if claim.marked_wrong} == {
        name for name, verdict in VERDICTS.items() if verdict == "fails"
    }


@pytest.mark.parametrize(
    ("claim", "changes", "verdict"),
    [
        (topic.copying_takes_infinite_scores, {"largest_gap": 9.0}, "holds"),
        (topic.copying_takes_a_finite_gap, {"n": 1}, "holds"),
        (topic.copying_takes_a_finite_gap, {"error": 0.99}, "holds if"),
        (topic.one_query_averages_two_values, {"n": 2}, "holds"),
        (topic.noisy_keys_are_averaged, {"alpha": 0.0}, "holds if"),
        (topic.noisy_keys_are_averaged, {"alpha": 1.0}, "fails"),
        (topic.one_head_swings, {"size": 0.5}, "fails"),
        (topic.matrices_give_the_outputs, {"second": 6}, "fails"),
        (topic.third_query_is_u_c, {"row": 2}, "holds"),
    ],
)
def test_other_parameters_turn_the_verdict(claim: Any, changes: Any, verdict: str) -> None:
    assert found(claim, **changes).verdict == verdict


def test_a_wrong_formula_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the key itself counted among the others.
    monkeypatch.setattr(topic, "copy_error", lambda gap, n: copy_error(gap, n=n + 1))
    monkeypatch.setattr(topic, "average_error", lambda size, n: average_error(size, n=n + 1))
    assert found(topic.copying_takes_a_finite_gap).verdict == "fails"
    assert found(topic.one_query_averages_two_values).verdict == "fails"


def test_copying_by_pencil() -> None:
    # Scores ln 3 and 0 for two keys: weights 3/4 and 1/4.
    assert copy_error(math.log(3), n=2) == pytest.approx(0.25)
    figures = found(topic.copying_takes_a_finite_gap, n=2, error=0.25).figures
    assert figures["found"] == pytest.approx(math.log(3))


def test_averaging_by_pencil() -> None:
    # n = 4, C = ln 3: weights 3/8, 3/8, 1/8, 1/8.
    assert average_error(math.log(3), n=4) == pytest.approx(0.25)
    figures = found(topic.one_query_averages_two_values, n=4, error=0.25).figures
    assert figures["found"] == pytest.approx(math.log(3))


def test_a_larger_factor_hurts_in_noise_but_not_without() -> None:
    figures = found(topic.noisy_keys_are_averaged).figures
    assert float(figures["last_error"]) > 10 * float(figures["least_error"])
    # For large C the error is |tanh(C√α z)|, of mean C√α √(2/π) as long as that is small.
    keys = drawn_keys(n=8, alpha=1e-4, swings=False, draws=4000, seed=1).keys
    mean = float(distance_from_half(head_weights(keys, of_a=10.0, of_b=10.0)).mean())
    assert mean == pytest.approx(10 * 0.01 * math.sqrt(2 / math.pi), rel=0.05)
    still = drawn_keys(n=8, alpha=0.0, swings=False, draws=1, seed=1).keys
    assert float(distance_from_half(head_weights(still, of_a=1e3, of_b=1e3))) == 0.0


def test_the_length_of_the_swinging_key_has_variance_one_half() -> None:
    lengths = drawn_keys(n=4, alpha=0.0, swings=True, draws=20000, seed=2).lengths
    assert float(lengths.mean()) == pytest.approx(1, abs=0.02)
    assert float(lengths.var()) == pytest.approx(0.5, abs=0.02)


def test_the_weight_of_a_swinging_key_is_a_sigmoid() -> None:
    draws = drawn_keys(n=2, alpha=0.0, swings=True, draws=50, seed=0)
    weights = head_weights(draws.keys, of_a=3.0, of_b=3.0)
    torch.testing.assert_close(weights[:, 0], torch.sigmoid(3 * (draws.lengths - 1)))


def test_two_heads_are_said_to_help_only_where_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_one_head(keys: torch.Tensor, *, size: float) -> torch.Tensor:
        return head_weights(keys, of_a=size, of_b=size)

    monkeypatch.setattr(topic, "two_head_weights", as_one_head)
    assert found(topic.two_heads_swing_less).verdict == "fails"


def test_a_head_that_cannot_miss_is_not_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def steady(**asked: Any) -> Any:
        return drawn_keys(**{**asked, "swings": False})

    monkeypatch.setattr(topic, "drawn_keys", steady)
    assert found(topic.two_heads_never_miss).verdict == "holds"
    assert found(topic.one_head_swings).verdict == "fails"


def test_the_share_of_negative_lengths() -> None:
    figures = found(topic.two_heads_never_miss).figures
    assert figures["expected"] == pytest.approx(0.0786, abs=1e-4)  # Φ(−√2)
    assert float(figures["low"]) < float(figures["missed"]) < float(figures["high"])
    assert figures["negative"] == pytest.approx(0.0786, abs=0.015)


def test_spread_and_share_by_pencil() -> None:
    assert spread(torch.tensor([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(1.0)
    assert share_of(torch.tensor([True, False, False, False])).share == 0.25


def test_the_example_before_anything_is_added() -> None:
    outputs = plain_outputs(inputs_of(drawn_basis(3.0, seed=0)))
    u = drawn_basis(3.0, seed=0)
    # c₂ = ((u_d + u_b) + e⁹ u_a + (u_c + u_b)) / (e⁹ + 2)
    wanted = (u.d + 2 * u.b + u.c + math.exp(9) * u.a) / (math.exp(9) + 2)
    torch.testing.assert_close(outputs[1], wanted)


def test_u_b_itself_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "distance_to_u_b", lambda *_, **__: 0.1)
    assert found(topic.no_addition_yields_u_b).verdict == "fails"


def test_errors_of_the_matrices_by_formula() -> None:
    for beta in (0.5, 1.0, 2.5):
        first, second = errors(beta, seed=3)
        assert first == pytest.approx(math.sqrt(2) * beta / (math.exp(beta**2) + 2))
        assert second == pytest.approx(math.sqrt(5) * beta / (math.exp(beta**2) + 2))


def test_the_three_queries() -> None:
    u = drawn_basis(2.0, seed=0)
    matrix = matrices_of(u, squared=4.0).query
    for x, wanted in zip(inputs_of(u), (u.d, u.c, torch.zeros_like(u.a)), strict=True):
        torch.testing.assert_close(matrix @ x, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0])
def test_an_error_that_does_not_move_refutes(
    constant: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search finds no boundary, which is a finding and no reason not to run."""
    monkeypatch.setattr(topic, "copy_error", lambda *_, **__: constant)
    monkeypatch.setattr(topic, "average_error", lambda *_, **__: constant)
    for claim in (topic.copying_takes_a_finite_gap, topic.one_query_averages_two_values):
        finding = found(claim)
        assert finding.verdict == "fails"
        assert finding.figures["found"] == ("none" if constant else "any")
        assert "formula 9" in finding.counter_example or "formula 8" in finding.counter_example


def test_the_finite_gap_is_tried_on_the_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two keys and e = 1/4 a gap of ln 3: the output is 3/4 of the way."""
    assert copy_distance(math.log(3), n=2) == pytest.approx(0.25)
    finding = found(topic.copying_takes_infinite_scores)
    assert finding.figures["gap"] == pytest.approx(math.log(15 * 999))
    assert finding.figures["distance"] == pytest.approx(0.001)
    assert "the key scores 9.615 and all others 0" in finding.counter_example
    monkeypatch.setattr(topic, "copy_distance", lambda *_, **__: 0.01)
    assert found(topic.copying_takes_infinite_scores).verdict == "holds"


def test_noise_that_never_hurts_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it would be if a larger C did not weigh the noise: half of what is said is then wrong."""
    monkeypatch.setattr(topic, "mean_error", lambda _keys, c: 1.0 if c < 2 else 0.01)
    finding = found(topic.noisy_keys_are_averaged)
    assert finding.verdict == "fails"
    assert "no C is too large" in finding.because
    assert found(topic.noisy_keys_are_averaged, alpha=0.0).verdict == "holds if"


@pytest.mark.parametrize("alpha", [1e-12, 1e-6])
def test_where_noise_hurts_goes_with_its_size(alpha: float) -> None:
    """2C√α is what counts, however small the noise."""
    product = found(topic.noisy_keys_are_averaged, alpha=alpha).figures["high_times_noise"]
    assert product == pytest.approx(0.25, abs=0.02)


def test_draws_in_which_neither_key_is_read_are_no_numbers_no_more() -> None:
    figures = found(topic.one_head_swings, alpha=10.0, size=1e4, n=32, draws=200).figures
    assert all(math.isfinite(float(value)) for value in figures.values())
