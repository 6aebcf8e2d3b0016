"""Comparison over seeds: t tests against SciPy, Holm by hand, power, degenerate inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from regard.core.errors import RegardError
from regard.studies.statistics.paired import (
    SeedComparison,
    compare_over_seeds,
    detectable_in_standard_errors,
    deviation_upper_factor,
    holm_adjusted,
    pair_tests,
    pairing,
    significance_verdict,
    smallest_detectable_difference,
)

OPPOSITE = {"better": "worse", "worse": "better", "inconclusive": "inconclusive"}
SOME_STUDIES = range(12)


def drawn(number: int) -> dict[str, dict[int, float]]:
    """A random study of 2 to 5 variants and 5 to 9 seeds, with differences from none to large."""
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


def test_interval_agrees_with_scipy() -> None:
    scores = [9.0, 8.0, 9.5, 8.7, 9.1]
    (variant,) = compare(scores).variants
    expected = stats.ttest_1samp(scores, 0.0).confidence_interval(0.95)
    assert variant.mean == pytest.approx(np.mean(scores))
    assert variant.interval == pytest.approx(tuple(expected))


def test_holm_by_hand() -> None:
    # In order: 4·0.01, 3·0.02, 2·0.025 (raised to the 0.06 before it), 1·0.2.
    adjusted = holm_adjusted(np.array([0.02, 0.2, 0.01, 0.025]))
    assert adjusted.tolist() == pytest.approx([0.06, 0.2, 0.04, 0.06])


def test_holm_with_ties_and_maximum() -> None:
    assert holm_adjusted(np.array([0.6, 0.01, 0.01])).tolist() == pytest.approx([0.6, 0.03, 0.03])
    assert holm_adjusted(np.array([0.6, 0.9])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_swapping_variants_inverts_the_result(number: int) -> None:
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
        assert back.detectable_difference == pytest.approx(pair.detectable_difference)
        assert back.verdict == OPPOSITE[pair.verdict]


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_common_seed_effect_cancels(number: int) -> None:
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
def test_detectable_difference_is_significant_when_observed(number: int) -> None:
    for pair in compare_over_seeds(drawn(number), lower_is_better=True).pairs:
        assert pair.detectable_difference is not None
        if abs(pair.difference) >= pair.detectable_difference:
            assert pair.verdict in {"better", "worse"}


def test_random_studies_have_every_verdict() -> None:
    verdicts = {
        pair.verdict
        for number in SOME_STUDIES
        for pair in compare_over_seeds(drawn(number), lower_is_better=True).pairs
    }
    assert verdicts == set(OPPOSITE)


def test_a_lower_error_rate_is_better() -> None:
    (pair,) = compare([5.0, 5.2, 4.9, 5.1, 5.0], [6.0, 6.3, 6.0, 6.2, 5.9]).pairs
    assert pair.verdict == "better"
    assert pair.sentence() == "variant0 is better than variant1"


@pytest.mark.parametrize("seeds", [5, 8])
@pytest.mark.parametrize("pairs", [1, 6, 28])
def test_power_at_the_detectable_difference_is_80_percent(seeds: int, pairs: int) -> None:
    critical = stats.t.isf(0.025 / pairs, seeds - 1)
    errors = detectable_in_standard_errors(seeds=seeds, pairs=pairs)
    assert stats.nct.sf(critical, seeds - 1, errors) == pytest.approx(0.8, abs=1e-6)


def test_deviation_bound_holds_in_80_percent_of_studies() -> None:
    # s²·4/σ² is chi-squared with 4 degrees of freedom; its lower fifth ends at 1.649.
    assert deviation_upper_factor(seeds=5) == pytest.approx((4 / 1.649) ** 0.5, rel=1e-3)
    bound = smallest_detectable_difference(2.0, seeds=5, pairs=1)
    assert bound == pytest.approx(
        2 * detectable_in_standard_errors(seeds=5, pairs=1) * deviation_upper_factor(seeds=5)
    )


def test_error_rate_and_power_in_a_simulation() -> None:
    # The bounds are six standard errors away from the promise, and the seed is fixed.
    generator = np.random.default_rng(0)
    spreads = np.array([1.0, 1.0, 3.0, 2.0])[:, None]

    def studies() -> np.ndarray:
        return 2 * generator.normal(size=(2_000, 1, 5)) + spreads * generator.normal(
            size=(2_000, 4, 5)
        )

    equal = pair_tests(studies())
    assert (equal.holm_p <= 0.05).any(axis=1).mean() < 0.08
    reported = smallest_detectable_difference(1.0, seeds=5, pairs=6) * equal.standard_error
    fresh = studies()
    fresh[:, 0] += reported[:, 2, None]  # the pair of the first variant and the last
    assert (pair_tests(fresh).holm_p[:, 2] <= 0.05).mean() > 0.8


def test_too_few_seeds() -> None:
    (pair,) = compare([5.0, 5.1, 5.0, 5.1], [90.0, 90.2, 90.1, 90.2]).pairs
    assert pair.p < 0.001
    assert pair.verdict == "too few seeds"
    assert "needs 5" in pair.sentence()


def test_one_seed_has_no_interval() -> None:
    result = compare([5.0], [6.0])
    (pair,) = result.pairs
    assert pair.difference == -1.0
    assert (pair.interval, pair.detectable_difference, pair.p) == (None, None, 1.0)
    assert pair.verdict == "too few seeds"
    assert result.variants[0].interval is None


def test_identical_scores_are_named_so() -> None:
    (pair,) = compare([5.0, 5.5, 5.0, 5.2, 5.1], [5.0, 5.5, 5.0, 5.2, 5.1]).pairs
    assert (pair.difference, pair.p, pair.interval, pair.detectable_difference) == (
        0.0,
        1.0,
        None,
        None,
    )
    assert pair.verdict == "same scores"
    assert pair.sentence() == "variant0 and variant1 have the same score with every seed"


def test_equal_means_are_inconclusive() -> None:
    (pair,) = compare([5.0, 5.5, 5.0, 5.25, 5.5], [5.5, 5.0, 5.5, 5.0, 5.25]).pairs
    assert (pair.difference, pair.p, pair.verdict) == (0.0, 1.0, "inconclusive")
    # Whatever the p-value: a difference of zero has no direction.
    assert significance_verdict(0.0, adjusted_p=0.01, lower_is_better=True) == "inconclusive"


def test_identical_scores_of_too_few_seeds() -> None:
    (pair,) = compare([5.0, 5.5], [5.0, 5.5]).pairs
    assert pair.verdict == "too few seeds"


def test_constant_difference_uses_the_sign_test() -> None:
    # Rounding makes the five differences differ in their last bit; that is no spread.
    first = [0.1, 0.2, 0.3, 0.4, 0.7]
    (pair,) = compare(first, [score + 0.1 for score in first]).pairs
    assert pair.p == 2 / 2**5
    assert pair.verdict == "inconclusive"
    (pair,) = compare([0.0] * 6, [100.0] * 6).pairs
    assert pair.p == 2 / 2**6
    assert pair.verdict == "better"


def test_diverged_variant_is_excluded() -> None:
    runs = as_runs(np.array([[5.0, 5.2, 4.9, 5.1, 5.0], [6.0, 6.3, 6.0, 6.2, 5.9]]))
    with_it = runs | {"wild": dict(enumerate([5.0, float("nan"), 5.0, float("inf"), 5.0]))}
    result = compare_over_seeds(with_it, lower_is_better=True)
    assert [(variant.variant, variant.reason) for variant in result.excluded] == [
        ("wild", "no finite score for 2 of 5 seeds")
    ]
    assert result.pairs == compare_over_seeds(runs, lower_is_better=True).pairs
    assert [variant.variant for variant in result.variants] == ["variant0", "variant1"]


def test_all_variants_diverged() -> None:
    result = compare([float("nan")] * 5, [float("nan")] * 5)
    assert (result.variants, result.pairs, len(result.excluded)) == ((), (), 2)


def test_single_variant() -> None:
    result = compare([5.0, 5.5, 5.0, 5.2, 5.1])
    assert result.pairs == ()
    assert result.variants[0].mean == pytest.approx(5.16)


def test_unequal_seeds_are_refused() -> None:
    runs = {"dot": {0: 1.0, 1: 2.0}, "gated": {0: 1.0, 1: 2.0}, "delta": {0: 1.0, 2: 2.0}}
    with pytest.raises(RegardError, match=r"dot, gated: 0, 1; delta: 0, 2"):
        compare_over_seeds(runs, lower_is_better=True)


def test_seed_order_is_irrelevant() -> None:
    runs = {"dot": {0: 1.0, 1: 2.0}, "gated": {1: 2.5, 0: 1.5}}
    assert compare_over_seeds(runs, lower_is_better=True).pairs[0].difference == -0.5


@pytest.mark.parametrize(("runs", "message"), [({}, "0 variants"), ({"dot": {}}, "0 seeds")])
def test_empty_input_is_refused(runs: dict[str, dict[int, float]], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        compare_over_seeds(runs, lower_is_better=True)


def test_result_is_json_compatible() -> None:
    result = compare([5.0, 5.2, 4.9, 5.1, 5.0], [6.0, 6.3, 6.0, 6.2, 5.9], [float("nan")] * 5)
    written = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert written["pairs"][0]["verdict"] == "better"
    assert written["pairs"][0]["interval"] == list(result.pairs[0].interval or ())
    assert written["excluded"][0]["variant"] == "variant2"


def test_pairing_by_hand() -> None:
    # Deviations −1, 0, 1 and −1, 1, 0: variances 1 and 1, covariance 1/2, var(A − B) = 2 − 1 = 1.
    found = pairing({"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 7.0, 1: 9.0, 2: 8.0}})
    assert (found.variants, found.seeds) == (2, 3)
    assert found.mean_correlation == pytest.approx(0.5)
    assert found.variance_ratio == pytest.approx(0.5)
    assert found.intraclass_correlation == pytest.approx(0.5)
    error = (1 / 3) ** 0.5
    assert found.detectable_difference == pytest.approx(
        smallest_detectable_difference(error, seeds=3, pairs=1)
    )
    # Unpaired: var(A) + var(B) = 2, with 4 degrees of freedom in place of 2.
    assert found.unpaired_detectable_difference == pytest.approx(
        smallest_detectable_difference((2 / 3) ** 0.5, seeds=5, pairs=1)
    )


def test_pairing_of_published_ratings() -> None:
    # Shrout and Fleiss (1979), four judges of six targets: ICC(3,1) = 0.71, 95 % interval 0.34 to 0.95.
    judges = [[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]]
    found = pairing(as_runs(np.array(judges)))
    assert found.intraclass_correlation == pytest.approx(0.7148, abs=1e-4)
    assert found.intraclass_low == pytest.approx(0.3425, abs=1e-3)
    assert found.intraclass_high == pytest.approx(0.9459, abs=1e-3)


@pytest.mark.parametrize("number", SOME_STUDIES)
def test_pairing_agrees_with_an_analysis_of_variance(number: int) -> None:
    scores = np.array([[*of_variant.values()] for of_variant in drawn(number).values()])
    variants, seeds = scores.shape
    of_seeds = scores.mean(axis=0) - scores.mean()
    residuals = scores - scores.mean(axis=1, keepdims=True) - of_seeds
    between = variants * (of_seeds**2).sum() / (seeds - 1)
    residual = (residuals**2).sum() / (seeds - 1) / (variants - 1)
    found = pairing(drawn(number))
    assert found.intraclass_correlation == pytest.approx(
        (between - residual) / (between + (variants - 1) * residual)
    )
    correlations = np.corrcoef(scores)[np.triu_indices(variants, k=1)]
    assert found.mean_correlation == pytest.approx(correlations.mean())


def test_pairing_without_variance() -> None:
    same = pairing({"a": dict.fromkeys(range(3), 1.0), "b": dict.fromkeys(range(3), 2.0)})
    assert (same.intraclass_correlation, same.mean_correlation, same.variance_ratio) == (None,) * 3
    assert same.detectable_difference is None
    perfect = pairing({"a": {0: 0.1, 1: 0.2, 2: 0.4}, "b": {0: 0.2, 1: 0.3, 2: 0.5}})
    assert perfect.intraclass_correlation == perfect.mean_correlation == pytest.approx(1.0)
    assert (perfect.intraclass_low, perfect.detectable_difference) == (None, None)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({"a": {0: 1.0, 1: 2.0, 2: 3.0}}, "1 variants and 3 seeds"),
        ({"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 2.0}}, "2 variants and 2 seeds"),
        ({"a": dict.fromkeys(range(3), float("nan")), "b": {0: 1.0, 1: 2.0, 2: 4.0}}, "not finite"),
    ],
)
def test_pairing_of_too_little_is_refused(runs: dict[str, dict[int, float]], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        pairing(runs)
