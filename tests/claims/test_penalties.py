"""Claims about hops and penalties: verdicts, and deliberately wrong variants."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.claims import penalties as topic
from regard.claims.experiments import penalties as experiments
from regard.claims.experiments.penalties import (
    KL_FORMS,
    distributions,
    overlap_violations,
    trained_overlaps,
    two_hop_kl,
)
from regard.core.errors import RegardError
from regard.layers.pooling import pairwise_kl_penalty
from regard.runs.spec import Sections


def test_rows_sum_to_one() -> None:
    record = topic.rows_sum_to_one.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds"
    assert record.value("largest_error") < 1e-14


def test_rows_of_the_delta_rule_do_not_sum_to_one() -> None:
    found = topic.rows_sum_to_one.run(mechanism="delta").finding
    assert found is not None
    assert found.verdict == "fails"
    assert "delta" in found.counter_example


def test_distributions() -> None:
    """Three units over two positions: C(parts + positions − 1, positions − 1) = 4 distributions."""
    assert distributions(positions=2, parts=3).tolist() == [[0, 3], [1, 2], [2, 1], [3, 0]]
    rows = distributions(positions=4, parts=6)
    assert len(rows) == math.comb(9, 3) == 84
    assert (rows.sum(axis=1) == 6).all()
    assert len({tuple(row) for row in rows.tolist()}) == 84


def test_overlaps_lie_in_the_unit_interval() -> None:
    record = topic.overlaps_lie_in_the_unit_interval.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds"
    assert record.value("pairs") == 84**2
    assert record.value("proved") is True


def test_without_the_proof_claims_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With (Σa)² instead of (Σa)(Σb), some terms can be negative."""
    a, b = experiments.hop("a", positions=2), experiments.hop("b", positions=2)
    assert str(experiments.one_minus_overlap(a, b)) == "a1*b2 + a2*b1"
    assert not experiments.is_nonnegative(a[0] - b[0])
    monkeypatch.setattr(topic, "one_minus_overlap", lambda a, b: (a[0] - b[0]) * b[0])
    for claim in (
        topic.overlaps_lie_in_the_unit_interval,
        topic.equal_hops_overlap_by_squared_norm,
    ):
        found = claim.run().finding
        assert found is not None
        assert found.verdict == "fails"
        assert found.values["proved"] is False


def test_proof_of_the_lower_bound() -> None:
    """2(a² + b²) − (a + b)² = (a − b)²."""
    assert experiments.variance_residual(experiments.hop("a", positions=2)) == 0
    assert experiments.variance_residual(experiments.hop("a", positions=5)) == 0
    a = experiments.hop("a", positions=3)
    every = experiments.one_minus_overlap(a, a)
    assert experiments.has_all_pairs(every, a, a)
    assert not experiments.has_all_pairs(every - 2 * a[0] * a[1], a, a)


def test_violations_by_rows_that_are_no_distributions() -> None:
    """A row of sum 2 has a self-overlap of 4 > 1; (1, 1)·(1, −1) = 0 although both supports are equal."""
    assert overlap_violations(np.array([[2, 0], [0, 1]]), parts=1) == (1, 0)
    outside, zeros = overlap_violations(np.array([[1, 1], [1, -1]]), parts=2)
    assert (outside, zeros) == (0, 2)


def test_equal_hops_do_not_overlap_by_one() -> None:
    """The smallest of 84 is (1, 1, 2, 2)/6: 10/36."""
    record = topic.equal_hops_overlap_by_one.run()
    assert record.finding is not None
    assert record.known_false
    assert record.finding.verdict == "fails"
    assert "10/36" in record.finding.counter_example
    assert record.value("min") == pytest.approx(10 / 36)
    assert record.value("ones") == 4


def test_equal_hops_over_one_position_overlap_by_one() -> None:
    found = topic.equal_hops_overlap_by_one.run(positions=1).finding
    assert found is not None
    assert found.verdict == "holds"


def test_equal_hops_overlap_by_their_squared_length() -> None:
    record = topic.equal_hops_overlap_by_squared_norm.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds"
    assert record.value("one_hot") == record.value("ones") == 4


def test_all_forms_of_kl_agree() -> None:
    weights = torch.randn(3, 4, 5, dtype=torch.float64).softmax(dim=-1)
    expected = pairwise_kl_penalty(weights)
    for form in KL_FORMS.values():
        torch.testing.assert_close(form(weights), expected)


def test_frobenius_is_a_third_of_the_elementwise_form_only() -> None:
    """With r hops and n positions: 2r²n + 3r² FLOPs against 6r²n of the first form, 4r²n of the second."""
    record = topic.frobenius_takes_a_third_of_kl.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds if"
    assert "Σ a log a − a log b" in record.finding.condition
    assert "A·log Aᵀ" not in record.finding.condition
    first, second, product = (record.value(form) for form in KL_FORMS)
    n = 128
    assert first == pytest.approx((2 * n + 3) / (6 * n), rel=0.02)
    assert second == pytest.approx((2 * n + 3) / (4 * n), rel=0.02)
    assert 0.8 < product < 1.1


def test_without_tolerance_it_is_not_a_third() -> None:
    found = topic.frobenius_takes_a_third_of_kl.run(tolerance=0.0).finding
    assert found is not None
    assert found.verdict == "fails"


def test_timing_of_every_form() -> None:
    record = topic.frobenius_takes_a_third_of_the_time.run(rounds=3, hops=4, n=16)
    assert record.finding is not None
    assert all(record.value(form) > 0 for form in KL_FORMS)


def test_kl_has_to_be_maximised() -> None:
    record = topic.kl_has_to_be_maximised.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds"
    assert record.value("kl_equal") == pytest.approx(0.0, abs=1e-12)


def test_errors_for_too_few_hops_or_positions() -> None:
    with pytest.raises(RegardError, match=r"hops=1: .* from 2 to 32"):
        topic.kl_has_to_be_maximised.run(hops=1)
    with pytest.raises(RegardError, match=r"n=3: 4 hops .* n=4 or more"):
        topic.kl_has_to_be_maximised.run(n=3)


def test_a_penalty_that_is_zero_for_different_hops_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A penalty on the first two hops only: 0 if only other hops differ."""

    def of_two(weights: torch.Tensor) -> torch.Tensor:
        return pairwise_kl_penalty(weights[:, :2])

    monkeypatch.setattr(experiments, "pairwise_kl_penalty", of_two)
    assert experiments.sampled_kl(hops=2, n=6, seed=0)[1] >= 1
    found = topic.kl_has_to_be_maximised.run(hops=3, seed=2).finding
    assert found is not None
    assert found.values["kl_rises"]
    assert found.verdict == "fails"


def test_a_falling_divergence_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    original = experiments.separate_hops

    def backwards(**options: Any) -> Any:
        distances, kl, frobenius = original(**options)
        return distances, kl[::-1].copy(), frobenius

    monkeypatch.setattr(topic, "separate_hops", backwards)
    found = topic.kl_has_to_be_maximised.run().finding
    assert found is not None
    assert found.verdict == "fails"
    assert "not monotonically" in found.reason


def test_kl_has_no_upper_bound() -> None:
    """At ε = e⁻¹: 2(1 − 2/e) · log(e − 1)."""
    assert two_hop_kl(1.0) == pytest.approx(2 * (1 - 2 / math.e) * math.log(math.e - 1))
    for bound in (1.0, 1e3, 1e9):
        record = topic.kl_has_no_upper_bound.run(bound=bound)
        assert record.finding is not None
        assert record.finding.verdict == "holds"
        assert record.value("divergence") > bound


def test_a_bounded_divergence_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "two_hop_kl", lambda sharpness: 1 - math.exp(-sharpness))
    found = topic.kl_has_no_upper_bound.run().finding
    assert found is not None
    assert found.verdict == "fails"
    assert "not above the bound 1e+06" in found.reason


@pytest.mark.parametrize(
    ("overlaps", "verdict"),
    [
        ({"none": [0.9, 0.8, 0.9], "frobenius": [0.5, 0.4, 0.6], "kl": [0.2, 0.3, 0.2]}, "holds"),
        (
            {"none": [0.9, 0.8, 0.9], "frobenius": [0.9, 0.9, 0.8], "kl": [0.2, 0.3, 0.2]},
            "holds if",
        ),
        ({"none": [0.5, 0.6, 0.4], "frobenius": [0.9, 0.9, 0.8], "kl": [0.5, 0.7, 0.3]}, "fails"),
    ],
)
def test_overlap_verdict_uses_the_interval_of_the_reduction(
    overlaps: dict[str, list[float]], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "trained_overlaps", lambda **_: overlaps)
    found = topic.penalty_lowers_redundancy.run(seeds=3).finding
    assert found is not None
    assert found.verdict == verdict


def test_overlaps_of_all_variants_after_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sixty short texts instead of the built-in data."""
    texts = tmp_path / "texts.tsv"
    rows = [(f"this is number {n} of them", "odd" if n % 2 else "even") for n in range(60)]
    texts.write_text("".join(f"{label}\t{text}\n" for text, label in rows))
    full = experiments.sections_of

    def few_texts(variant: str, **options: Any) -> Sections:
        sections = full(variant, **options)
        sections["task"] |= {
            "train_file": str(texts),
            "validation_fraction": 0.2,
            "test_fraction": 0.2,
        }
        return sections

    monkeypatch.setattr(experiments, "sections_of", few_texts)
    overlaps = trained_overlaps.__wrapped__(seeds=2, steps=2, penalty_weight=1.0)
    assert list(overlaps) == ["none", "frobenius", "kl"]
    assert all(0 <= value <= 1 + 1e-6 for values in overlaps.values() for value in values)


def test_error_for_one_seed() -> None:
    with pytest.raises(RegardError, match="seeds=1, steps=2"):
        trained_overlaps(seeds=1, steps=2, penalty_weight=1.0)
