"""Claims about weights and penalties: right verdicts, and others where the statement is broken."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.claims import penalties as topic
from regard.claims.experiments import (
    penalties as hop_overlaps,
    penalties as penalty_forms,
    penalties as trained_hops,
)
from regard.claims.experiments.penalties import (
    KL_FORMS,
    distributions,
    overlap_faults,
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
    assert record.figure("largest_error") < 1e-14


def test_rows_of_the_delta_rule_do_not_sum_to_one() -> None:
    found = topic.rows_sum_to_one.run(of="delta").finding
    assert found is not None
    assert found.verdict == "fails"
    assert "delta" in found.counter_example


def test_all_distributions_are_listed() -> None:
    """Three parts on two places: 4 ways; the count is C(parts + places − 1, places − 1)."""
    assert distributions(places=2, parts=3).tolist() == [[0, 3], [1, 2], [2, 1], [3, 0]]
    rows = distributions(places=4, parts=6)
    assert len(rows) == math.comb(9, 3) == 84
    assert (rows.sum(axis=1) == 6).all()
    assert len({tuple(row) for row in rows.tolist()}) == 84


def test_overlaps_lie_in_the_unit_interval() -> None:
    record = topic.overlaps_lie_in_the_unit_interval.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds"
    assert record.figure("pairs") == 84**2
    assert record.figure("proved") is True


def test_the_proof_takes_part_in_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """With (Σa)² for (Σa)(Σb) terms are left over that can be negative."""
    a, b = hop_overlaps.hop("a", places=2), hop_overlaps.hop("b", places=2)
    assert str(hop_overlaps.beside_the_overlap(a, b)) == "a1*b2 + a2*b1"
    assert not hop_overlaps.is_never_negative(a[0] - b[0])
    monkeypatch.setattr(topic, "beside_the_overlap", lambda a, b: (a[0] - b[0]) * b[0])
    for claim in (
        topic.overlaps_lie_in_the_unit_interval,
        topic.equal_hops_overlap_by_their_squared_length,
    ):
        found = claim.run().finding
        assert found is not None
        assert found.verdict == "fails"
        assert found.figures["proved"] is False


def test_the_squares_behind_the_lower_bound() -> None:
    """2(a² + b²) − (a + b)² = (a − b)²."""
    assert hop_overlaps.spread_rest(hop_overlaps.hop("a", places=2)) == 0
    assert hop_overlaps.spread_rest(hop_overlaps.hop("a", places=5)) == 0
    a = hop_overlaps.hop("a", places=3)
    every = hop_overlaps.beside_the_overlap(a, a)
    assert hop_overlaps.has_every_pair(every, a, a)
    assert not hop_overlaps.has_every_pair(every - 2 * a[0] * a[1], a, a)


def test_rows_that_are_no_distributions_are_found_out() -> None:
    """A row of sum 2 overlaps with itself by 4 > 1; (1, 1)·(1, −1) = 0 though they share both places."""
    assert overlap_faults(np.array([[2, 0], [0, 1]]), parts=1) == (1, 0)
    outside, zeros = overlap_faults(np.array([[1, 1], [1, -1]]), parts=2)
    assert (outside, zeros) == (0, 2)


def test_equal_hops_do_not_overlap_by_one() -> None:
    """The least of 84 is (1, 1, 2, 2)/6: 10/36."""
    record = topic.equal_hops_overlap_by_one.run()
    assert record.finding is not None
    assert record.marked_wrong
    assert record.finding.verdict == "fails"
    assert "10/36" in record.finding.counter_example
    assert record.figure("least") == pytest.approx(10 / 36)
    assert record.figure("ones") == 4


def test_with_one_place_they_do() -> None:
    found = topic.equal_hops_overlap_by_one.run(places=1).finding
    assert found is not None
    assert found.verdict == "holds"


def test_equal_hops_overlap_by_their_squared_length() -> None:
    record = topic.equal_hops_overlap_by_their_squared_length.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds"
    assert record.figure("one_hot") == record.figure("ones") == 4


def test_all_forms_of_kl_agree() -> None:
    weights = torch.randn(3, 4, 5, dtype=torch.float64).softmax(dim=-1)
    right = pairwise_kl_penalty(weights)
    for form in KL_FORMS.values():
        torch.testing.assert_close(form(weights), right)


def test_frobenius_is_a_third_of_the_elementwise_form_only() -> None:
    """With r hops and n places: 2r²n + 3r² operations against 6r²n of the first, 4r²n of the second."""
    record = topic.frobenius_takes_a_third_of_kl.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds if"
    assert "Σ a log a − a log b" in record.finding.boundary
    assert "A·log Aᵀ" not in record.finding.boundary
    first, second, product = (record.figure(form) for form in KL_FORMS)
    n = 128
    assert first == pytest.approx((2 * n + 3) / (6 * n), rel=0.02)
    assert second == pytest.approx((2 * n + 3) / (4 * n), rel=0.02)
    assert 0.8 < product < 1.1


def test_without_tolerance_it_is_no_third() -> None:
    found = topic.frobenius_takes_a_third_of_kl.run(tolerance=0.0).finding
    assert found is not None
    assert found.verdict == "fails"


def test_times_are_measured_of_every_form() -> None:
    record = topic.frobenius_takes_a_third_of_the_time.run(rounds=3, hops=4, n=16)
    assert record.finding is not None
    assert all(record.figure(form) > 0 for form in KL_FORMS)


def test_kl_has_to_be_maximised() -> None:
    record = topic.kl_has_to_be_maximised.run()
    assert record.finding is not None
    assert record.finding.verdict == "holds"
    assert record.figure("kl_equal") == pytest.approx(0.0, abs=1e-12)


def test_one_hop_has_nothing_to_part_from() -> None:
    with pytest.raises(RegardError, match=r"hops=1: .* must be from 2 to 32"):
        topic.kl_has_to_be_maximised.run(hops=1)
    with pytest.raises(RegardError, match=r"n=3: 4 hops need a place each .* 4 or more"):
        topic.kl_has_to_be_maximised.run(n=3)


def test_a_penalty_that_is_0_elsewhere_too_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees the first two hops alone: it rises as they part, but is 0 where only others differ."""

    def of_two(weights: torch.Tensor) -> torch.Tensor:
        return pairwise_kl_penalty(weights[:, :2])

    monkeypatch.setattr(penalty_forms, "pairwise_kl_penalty", of_two)
    right = penalty_forms.kl_of_draws(hops=2, n=6, seed=0)
    assert right[1] >= 1
    found = topic.kl_has_to_be_maximised.run(hops=3, seed=2).finding
    assert found is not None
    assert found.figures["kl_rises"]
    assert found.verdict == "fails"


def test_what_falls_is_not_said_to_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    right = penalty_forms.parting

    def backwards(**asked: Any) -> Any:
        distances, kl, frobenius = right(**asked)
        return distances, kl[::-1].copy(), frobenius

    monkeypatch.setattr(topic, "parting", backwards)
    found = topic.kl_has_to_be_maximised.run().finding
    assert found is not None
    assert found.verdict == "fails"
    assert "not up at every step" in found.because


def test_kl_has_no_upper_bound() -> None:
    """At ε = e⁻¹ by hand: 2(1 − 2/e) · log(e − 1)."""
    assert two_hop_kl(1.0) == pytest.approx(2 * (1 - 2 / math.e) * math.log(math.e - 1))
    for bound in (1.0, 1e3, 1e9):
        record = topic.kl_has_no_upper_bound.run(bound=bound)
        assert record.finding is not None
        assert record.finding.verdict == "holds"
        assert record.figure("divergence") > bound


def test_a_bounded_divergence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "two_hop_kl", lambda sharpness: 1 - math.exp(-sharpness))
    found = topic.kl_has_no_upper_bound.run().finding
    assert found is not None
    assert found.verdict == "fails"
    assert "which is not above the 1e+06 asked for" in found.because


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
def test_redundancy_is_judged_by_the_interval_of_the_drop(
    overlaps: dict[str, list[float]], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "trained_overlaps", lambda **_: overlaps)
    found = topic.penalty_lowers_redundancy.run(seeds=3).finding
    assert found is not None
    assert found.verdict == verdict


def test_a_few_steps_of_training_give_overlaps_of_all_variants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sixty short texts instead of the embedded films."""
    texts = tmp_path / "texts.tsv"
    rows = [(f"this is number {n} of them", "odd" if n % 2 else "even") for n in range(60)]
    texts.write_text("".join(f"{label}\t{text}\n" for text, label in rows))
    whole = trained_hops.sections_of

    def few_texts(variant: str, **words: Any) -> Sections:
        sections = whole(variant, **words)
        sections["task"] |= {"labels": str(texts), "validation_share": 0.2, "test_share": 0.2}
        return sections

    monkeypatch.setattr(trained_hops, "sections_of", few_texts)
    overlaps = trained_overlaps.__wrapped__(seeds=2, steps=2, penalty_weight=1.0)
    assert list(overlaps) == ["none", "frobenius", "kl"]
    assert all(0 <= value <= 1 + 1e-6 for values in overlaps.values() for value in values)


def test_one_seed_shows_no_spread() -> None:
    with pytest.raises(RegardError, match="two seeds or more show a spread"):
        trained_overlaps(seeds=1, steps=2, penalty_weight=1.0)
