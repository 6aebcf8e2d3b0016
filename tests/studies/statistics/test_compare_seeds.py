"""Methods over seeds: t tests against SciPy's, Holm by hand, verdicts, inputs with little in them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from regard.core.errors import RegardError
from regard.studies.statistics.compare_seeds import SeedComparison, compare_over_seeds
from regard.studies.statistics.paired import (
    detectable_difference,
    detectable_in_errors,
    holm_adjusted,
    pair_tests,
    spread_factor,
)

OPPOSITE = {"better": "worse", "worse": "better", "cannot tell apart": "cannot tell apart"}
SOME_STUDIES = range(12)


def drawn(number: int) -> dict[str, dict[int, float]]:
    """A study of 2 to 5 variants and 5 to 9 seeds, with differences from none to large."""
    generator = np.random.default_rng(number)
    variants, seeds = generator.integers(2, 6), generator.integers(5, 10)
    scores = generator.normal(size=(variants, seeds)) + 3 * generator.normal(size=seeds)
    scores += generator.exponential(2.0) * generator.normal(size=(variants, 1))
    return as_runs(scores)


def as_runs(scores: np.ndarray) -> dict[str, dict[int, float]]:
    return {
        f"variant{variant}": {seed: float(score) for seed, score in enumerate(of_variant)}
        for variant, of_variant in enumerate(scores)
    }


def compare(*scores: list[float], lower_is_better: bool = True) -> SeedComparison:
    return compare_over_seeds(as_runs(np.array(scores)), lower_is_better=lower_is_better)


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_each_pair_agrees_with_scipy(number: int) -> None:
    runs = drawn(number)
    result = compare_over_seeds(runs, lower_is_better=True)
    raw = []
    for pair in result.pairs:
        first, second = ([*runs[variant].values()] for variant in (pair.first, pair.second))
        test = stats.ttest_rel(first, second)
        raw.append(test.pvalue)
        alone, together = (
            test.confidence_interval(1 - 0.05 / pairs) for pairs in (1, len(result.pairs))
        )
        assert pair.difference == pytest.approx(np.mean(first) - np.mean(second))
        assert pair.p == pytest.approx(test.pvalue, rel=1e-9)
        assert pair.interval == pytest.approx(tuple(alone))
        assert pair.simultaneous_interval == pytest.approx(tuple(together))
    assert [pair.holm_p for pair in result.pairs] == pytest.approx(
        holm_adjusted(np.array(raw)).tolist()
    )


def test_the_interval_of_a_variant_agrees_with_scipy() -> None:
    scores = [9.0, 8.0, 9.5, 8.7, 9.1]
    (variant,) = compare(scores).variants
    expected = stats.ttest_1samp(scores, 0.0).confidence_interval(0.95)
    assert variant.mean == pytest.approx(np.mean(scores))
    assert variant.interval == pytest.approx(tuple(expected))


def test_holm_by_hand() -> None:
    # In order: 4·0.01, 3·0.02, 2·0.025 (raised to the 0.06 before it), 1·0.2.
    adjusted = holm_adjusted(np.array([0.02, 0.2, 0.01, 0.025]))
    assert adjusted.tolist() == pytest.approx([0.06, 0.2, 0.04, 0.06])


def test_holm_stops_at_one_and_keeps_ties_together() -> None:
    assert holm_adjusted(np.array([0.6, 0.01, 0.01])).tolist() == pytest.approx([0.6, 0.03, 0.03])
    assert holm_adjusted(np.array([0.6, 0.9])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_swapping_two_variants_turns_everything_round(number: int) -> None:
    runs = drawn(number)
    backwards = dict(reversed(runs.items()))
    there = {
        (pair.first, pair.second): pair
        for pair in compare_over_seeds(runs, lower_is_better=True).pairs
    }
    for back in compare_over_seeds(backwards, lower_is_better=True).pairs:
        pair = there[back.second, back.first]
        assert pair.interval is not None
        assert back.interval is not None
        assert back.difference == pytest.approx(-pair.difference)
        assert back.interval == pytest.approx((-pair.interval.high, -pair.interval.low))
        assert back.p == pytest.approx(pair.p)
        assert back.holm_p == pytest.approx(pair.holm_p)
        assert back.detectable == pytest.approx(pair.detectable)
        assert back.verdict == OPPOSITE[pair.verdict]


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_what_a_seed_does_to_all_variants_does_not_matter(number: int) -> None:
    runs = drawn(number)
    luck = np.random.default_rng(number).normal(scale=5.0, size=20)
    moved = {
        variant: {seed: score + float(luck[seed]) for seed, score in of_variant.items()}
        for variant, of_variant in runs.items()
    }
    for pair, same in zip(
        compare_over_seeds(runs, lower_is_better=True).pairs,
        compare_over_seeds(moved, lower_is_better=True).pairs,
        strict=True,
    ):
        assert same.difference == pytest.approx(pair.difference)
        assert same.p == pytest.approx(pair.p)
        assert same.verdict == pair.verdict


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_lower_is_better_flips_the_verdict_and_nothing_else(number: int) -> None:
    runs = drawn(number)
    lower = compare_over_seeds(runs, lower_is_better=True)
    higher = compare_over_seeds(runs, lower_is_better=False)
    for pair, flipped in zip(lower.pairs, higher.pairs, strict=True):
        assert flipped.verdict == OPPOSITE[pair.verdict]
        assert flipped.difference == pair.difference


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_what_was_called_detectable_and_is_seen_is_claimed(number: int) -> None:
    for pair in compare_over_seeds(drawn(number), lower_is_better=True).pairs:
        assert pair.detectable is not None
        if abs(pair.difference) >= pair.detectable:
            assert pair.verdict in {"better", "worse"}


def test_the_drawn_studies_end_in_every_verdict() -> None:
    verdicts = {
        pair.verdict
        for number in SOME_STUDIES
        for pair in compare_over_seeds(drawn(number), lower_is_better=True).pairs
    }
    assert verdicts == set(OPPOSITE)


def test_a_lower_error_rate_is_better() -> None:
    (pair,) = compare([5.0, 5.2, 4.9, 5.1, 5.0], [6.0, 6.3, 6.0, 6.2, 5.9]).pairs
    assert pair.verdict == "better"
    assert pair.in_words() == "variant0 is better than variant1"


@pytest.mark.parametrize("seeds", [5, 8])
@pytest.mark.parametrize("pairs", [1, 6, 28])
def test_the_power_at_the_detectable_difference_is_80_percent(seeds: int, pairs: int) -> None:
    critical = stats.t.isf(0.025 / pairs, seeds - 1)
    errors = detectable_in_errors(seeds=seeds, pairs=pairs)
    assert stats.nct.sf(critical, seeds - 1, errors) == pytest.approx(0.8, abs=1e-6)


def test_the_spread_is_bounded_from_above_in_80_percent_of_studies() -> None:
    # s²·4/σ² is chi-squared with 4 degrees of freedom; its lower fifth ends at 1.649.
    assert spread_factor(seeds=5) == pytest.approx((4 / 1.649) ** 0.5, rel=1e-3)
    bound = detectable_difference(2.0, seeds=5, pairs=1)
    assert bound == pytest.approx(
        2 * detectable_in_errors(seeds=5, pairs=1) * spread_factor(seeds=5)
    )


def test_a_small_simulation_keeps_both_promises() -> None:
    # The bounds are six standard errors away from the promise, and the seed is fixed.
    generator = np.random.default_rng(0)
    spreads = np.array([1.0, 1.0, 3.0, 2.0])[:, None]

    def studies() -> np.ndarray:
        return 2 * generator.normal(size=(2_000, 1, 5)) + spreads * generator.normal(
            size=(2_000, 4, 5)
        )

    equal = pair_tests(studies())
    assert (equal.holm_p <= 0.05).any(axis=1).mean() < 0.08
    reported = detectable_difference(1.0, seeds=5, pairs=6) * equal.standard_error
    fresh = studies()
    fresh[:, 0] += reported[:, 2, None]  # the pair of the first variant and the last
    assert (pair_tests(fresh).holm_p[:, 2] <= 0.05).mean() > 0.8


def test_fewer_than_five_seeds_claim_nothing() -> None:
    (pair,) = compare([5.0, 5.1, 5.0, 5.1], [90.0, 90.2, 90.1, 90.2]).pairs
    assert pair.p < 0.001
    assert pair.verdict == "these runs only"
    assert "takes 5 seeds" in pair.in_words()


def test_one_seed_shows_no_spread() -> None:
    result = compare([5.0], [6.0])
    (pair,) = result.pairs
    assert pair.difference == -1.0
    assert (pair.interval, pair.detectable, pair.p) == (None, None, 1.0)
    assert pair.verdict == "these runs only"
    assert result.variants[0].interval is None


def test_identical_scores_cannot_be_told_apart() -> None:
    (pair,) = compare([5.0, 5.5, 5.0, 5.2, 5.1], [5.0, 5.5, 5.0, 5.2, 5.1]).pairs
    assert (pair.difference, pair.p, pair.interval, pair.detectable) == (0.0, 1.0, None, None)
    assert pair.verdict == "cannot tell apart"
    assert "do not vary" in pair.in_words()


def test_a_difference_without_spread_is_judged_by_its_sign_alone() -> None:
    # Rounding makes the five differences differ in their last bit; that is no spread.
    first = [0.1, 0.2, 0.3, 0.4, 0.7]
    (pair,) = compare(first, [score + 0.1 for score in first]).pairs
    assert pair.p == 2 / 2**5
    assert pair.verdict == "cannot tell apart"
    (pair,) = compare([0.0] * 6, [100.0] * 6).pairs
    assert pair.p == 2 / 2**6
    assert pair.verdict == "better"


def test_a_variant_that_diverged_is_left_out_and_listed() -> None:
    runs = as_runs(np.array([[5.0, 5.2, 4.9, 5.1, 5.0], [6.0, 6.3, 6.0, 6.2, 5.9]]))
    with_it = runs | {"wild": dict(enumerate([5.0, float("nan"), 5.0, float("inf"), 5.0]))}
    result = compare_over_seeds(with_it, lower_is_better=True)
    assert [(variant.variant, variant.reason) for variant in result.excluded] == [
        ("wild", "no finite score with 2 of 5 seeds")
    ]
    assert result.pairs == compare_over_seeds(runs, lower_is_better=True).pairs
    assert [variant.variant for variant in result.variants] == ["variant0", "variant1"]


def test_nothing_is_left_when_all_variants_diverged() -> None:
    result = compare([float("nan")] * 5, [float("nan")] * 5)
    assert (result.variants, result.pairs, len(result.excluded)) == ((), (), 2)


def test_a_single_variant_has_a_mean_and_no_pairs() -> None:
    result = compare([5.0, 5.5, 5.0, 5.2, 5.1])
    assert result.pairs == ()
    assert result.variants[0].mean == pytest.approx(5.16)


def test_unequal_seeds_are_refused_with_the_variants_named() -> None:
    runs = {"dot": {0: 1.0, 1: 2.0}, "gated": {0: 1.0, 1: 2.0}, "delta": {0: 1.0, 2: 2.0}}
    with pytest.raises(RegardError, match=r"dot, gated: 0, 1; delta: 0, 2"):
        compare_over_seeds(runs, lower_is_better=True)


def test_the_order_of_the_seeds_does_not_matter() -> None:
    runs = {"dot": {0: 1.0, 1: 2.0}, "gated": {1: 2.5, 0: 1.5}}
    assert compare_over_seeds(runs, lower_is_better=True).pairs[0].difference == -0.5


@pytest.mark.parametrize(("runs", "complaint"), [({}, "0 variants"), ({"dot": {}}, "0 seeds")])
def test_nothing_to_compare_is_refused(runs: dict[str, dict[int, float]], complaint: str) -> None:
    with pytest.raises(RegardError, match=complaint):
        compare_over_seeds(runs, lower_is_better=True)


def test_a_result_is_plain_enough_for_json() -> None:
    result = compare([5.0, 5.2, 4.9, 5.1, 5.0], [6.0, 6.3, 6.0, 6.2, 5.9], [float("nan")] * 5)
    written = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert written["pairs"][0]["verdict"] == "better"
    assert written["pairs"][0]["interval"] == list(result.pairs[0].interval or ())
    assert written["excluded"][0]["variant"] == "variant2"
