"""Paired t tests of all pairs of variants over seeds, with Holm's correction, intervals and power.

A seed fixes the initial parameters and the data order, so runs with the same seed are correlated between
variants. Only differences within a seed are tested, which removes that common effect. Functions work on
arrays of one study or of thousands at once.

Each pair is tested with the variance of its own differences. A pooled variance would be a steadier
estimate, but raises the false-positive rate when variants differ in variance. The paired t test is exact
for normal differences, and conservative for symmetric ones with heavier tails. It is not when one variant
has rare but very bad runs: differences are then skewed, which no test of five seeds corrects.

Two questions are kept apart: `bootstrap.py` asks whether *these trained models* are better on similar
test items, `compare_over_seeds` whether the *method* is better whatever the seed. It tests every pair of
variants, with the family-wise error rate of a study at 5 %. With fewer than five seeds the verdict is
"too few seeds". An "inconclusive" verdict comes with the smallest detectable difference, so that it is
not read as "equal". A bootstrap over seeds is not offered: with two or three seeds it finds a difference
between equal variants in half or a quarter of all studies (`python -m benchmarks study_statistics` shows
it).

Power: `smallest_detectable_difference` is the true difference that a study would find with 80 % power at
the Bonferroni level, the strictest that Holm's procedure may apply. Power follows from the noncentral t
distribution if the variance is known. A handful of seeds often underestimates it: a study of five seeds,
repeated at the difference computed from the estimate, would find it in two of three cases only. So an 80
% upper confidence bound of the standard deviation is used: in four of five studies the power at the
reported difference is then 80 % or more (`python -m benchmarks study_statistics` measures both). The
variance is that of the pair's own differences, so that a difference above the detectable one is always
significant.

Pairing helps as far as runs with the same seed are correlated between variants, which `pairing` measures.
A paired test has half the degrees of freedom of an unpaired one, so that a small correlation may not pay.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import chdtri, fdtri, nctdtrinc, stdtr, stdtrit

from regard.core.errors import RegardError
from regard.core.records.study import PairingRecord


def holm_adjusted(p: Float[np.ndarray, "*studies pairs"]) -> Float[np.ndarray, "*studies pairs"]:
    """P-values adjusted by Holm's step-down procedure (1979); the last axis is one family of tests.

    The smallest of m p-values is multiplied by m, the next by m − 1, and so on, monotone and at most 1.

    >>> holm_adjusted(np.array([0.5, 0.25, 0.125])).tolist()
    [0.5, 0.5, 0.375]
    """
    order = np.argsort(p, axis=-1, kind="stable")
    sorted_p = np.take_along_axis(p, order, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    raised = np.minimum(np.maximum.accumulate(sorted_p * factors, axis=-1), 1.0)
    adjusted = np.empty_like(raised)
    np.put_along_axis(adjusted, order, raised, axis=-1)
    return adjusted


LEVEL = 0.05
"""Family-wise significance level of a study."""

Verdict = Literal["better", "worse", "inconclusive", "same scores", "too few seeds"]
"""Of the first variant of a pair: better or worse than the second. Same scores: with every seed or item."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class ExcludedVariant:
    """A variant that was excluded from all comparisons, and why."""

    variant: str
    reason: str


def significance_verdict(
    difference: float, *, adjusted_p: float, lower_is_better: bool
) -> Literal["better", "worse", "inconclusive"]:
    """The verdict on the first variant; the difference is the first score minus the second.

    >>> significance_verdict(-1.5, adjusted_p=0.01, lower_is_better=True)
    'better'
    """
    if adjusted_p > LEVEL or difference == 0:
        return "inconclusive"
    return "better" if (difference < 0) == lower_is_better else "worse"


def sign_test_p(*, observations: int) -> float:
    """The two-sided sign test for observations that all show the same difference: 2 / 2ⁿ.

    Without variance, a t test or a bootstrap would report p = 0.

    >>> sign_test_p(observations=5)
    0.0625
    """
    return 2.0 ** (1 - observations)


def validate_variants(variants: Iterable[str]) -> None:
    """Raise if a comparison is empty."""
    if not list(variants):
        raise RegardError("There is nothing to compare: 0 variants. Give at least one variant.")


ROUNDING = 1e-12
"""Relative differences below this are rounding errors, not variance."""


@dataclass(frozen=True)
class PairTests:
    """The tests of all pairs; arrays end in the axis of pairs."""

    first: Int[np.ndarray, " pairs"]
    second: Int[np.ndarray, " pairs"]
    difference: Float[np.ndarray, "*studies pairs"]
    standard_error: Float[np.ndarray, "*studies pairs"]
    has_variance: Bool[np.ndarray, "*studies pairs"]  # if not, only p is meaningful
    p: Float[np.ndarray, "*studies pairs"]
    holm_p: Float[np.ndarray, "*studies pairs"]


def pair_tests(scores: Float[np.ndarray, "*studies variants seeds"]) -> PairTests:
    """Test every pair of variants; the difference is the score of the first minus that of the second."""
    variants, seeds = scores.shape[-2:]
    first, second = np.triu_indices(variants, k=1)
    differences = scores[..., first, :] - scores[..., second, :]
    largest = np.abs(scores).max(axis=-1)
    rounding = ROUNDING * np.maximum(largest[..., first], largest[..., second])
    mean = differences.mean(axis=-1)
    deviation = differences.std(axis=-1, ddof=1) if seeds > 1 else np.zeros_like(mean)
    standard_error = deviation / np.sqrt(seeds)
    has_variance = deviation > rounding
    t = np.divide(mean, standard_error, out=np.zeros_like(mean), where=has_variance)
    constant_p = np.where(np.abs(mean) > rounding, sign_test_p(observations=seeds), 1.0)
    p = np.where(has_variance, 2 * stdtr(max(seeds - 1, 1), -np.abs(t)), constant_p)
    return PairTests(
        first=first,
        second=second,
        difference=mean,
        standard_error=standard_error,
        has_variance=has_variance,
        p=p,
        holm_p=holm_adjusted(p),
    )


POWER = 0.8
CONFIDENCE = 0.8
"""Confidence of the upper bound of the standard deviation."""


def critical_t(*, seeds: int, pairs: int) -> float:
    """The critical |t| at the Bonferroni level for `pairs` tests."""
    return -float(stdtrit(seeds - 1, LEVEL / (2 * pairs)))


@functools.cache  # 6 ms, and the same for all pairs of a study
def detectable_in_standard_errors(*, seeds: int, pairs: int) -> float:
    """The difference with 80 % power, in true standard errors of the mean difference."""
    return float(nctdtrinc(seeds - 1, 1 - POWER, critical_t(seeds=seeds, pairs=pairs)))


def deviation_upper_factor(*, seeds: int) -> float:
    """Factor from the estimated standard deviation to its 80 % upper confidence bound."""
    return math.sqrt((seeds - 1) / float(chdtri(seeds - 1, CONFIDENCE)))


def smallest_detectable_difference(standard_error: float, *, seeds: int, pairs: int) -> float:
    """The smallest detectable difference, from the estimated standard error of the mean difference."""
    return (
        detectable_in_standard_errors(seeds=seeds, pairs=pairs)
        * deviation_upper_factor(seeds=seeds)
        * standard_error
    )


def seed_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % t interval of the mean over seeds; None for a single seed or equal values.

    >>> seed_interval([2.0]) is None
    True
    """
    array = np.array(values)
    if len(array) == 1 or np.ptp(array) <= ROUNDING * np.abs(array).max():
        return None
    error = float(array.std(ddof=1)) / math.sqrt(len(array))
    margin = critical_t(seeds=len(array), pairs=1) * error
    mean = float(array.mean())
    return Interval(low=mean - margin, high=mean + margin)


MIN_SEEDS = 5

SeedScores = Mapping[int, float]


@dataclass(frozen=True)
class VariantOverSeeds:
    """The mean score of a variant over seeds, with its 95 % t interval."""

    variant: str
    mean: float
    interval: Interval | None  # None for a single seed or equal scores


@dataclass(frozen=True)
class SeedPair:
    """A comparison of two methods. The difference is the first score minus the second."""

    first: str
    second: str
    difference: float
    interval: Interval | None  # 95 % for this pair alone; None if the differences have no variance
    simultaneous_interval: Interval | None  # 95 % for all pairs together (Bonferroni)
    p: float
    holm_p: float  # decides the verdict
    detectable_difference: float | None  # the smallest with 80 % power
    verdict: Verdict

    def sentence(self) -> str:
        """The verdict as a sentence."""
        match self.verdict:
            case "too few seeds":
                return (
                    f"{self.first} and {self.second}: too few seeds; a comparison of methods needs "
                    f"{MIN_SEEDS}"
                )
            case "same scores":
                return f"{self.first} and {self.second} have the same score with every seed"
            case "inconclusive" if self.detectable_difference is None:
                return (
                    f"{self.first} vs {self.second}: inconclusive; the differences do not vary over seeds, "
                    "so there is no t test"
                )
            case "inconclusive":
                return (
                    f"{self.first} vs {self.second}: inconclusive, no difference detected (smallest "
                    f"detectable: {self.detectable_difference:.3g})"
                )
            case verdict:
                return f"{self.first} is {verdict} than {self.second}"


@dataclass(frozen=True)
class SeedComparison:
    """All variants over seeds, and all pairs."""

    seeds: tuple[int, ...]
    lower_is_better: bool
    variants: tuple[VariantOverSeeds, ...]
    pairs: tuple[SeedPair, ...]
    excluded: tuple[ExcludedVariant, ...]

    def as_json(self) -> dict[str, Any]:
        """JSON-compatible values."""
        return asdict(self)


def compare_over_seeds(
    scores: Mapping[str, SeedScores], *, lower_is_better: bool, is_paired: bool = True
) -> SeedComparison:
    """Compare methods by the scores of their runs: variant → seed → score.

    All variants must have the same seeds; if they are not paired, each has its own, and none are compared.
    Variants with a score that is not finite are excluded, and listed.

    >>> runs = {"dot": {0: 9.0, 1: 8.0, 2: 9.5}, "additive": {0: 7.0, 1: 7.5, 2: 8.0}}
    >>> compare_over_seeds(runs, lower_is_better=True).pairs[0].verdict
    'too few seeds'
    """
    validate_variants(scores)
    seeds = _common_seeds(scores) if is_paired else ()
    excluded = tuple(
        ExcludedVariant(
            variant=variant, reason=f"no finite score for {failed} of {len(of_variant)} seeds"
        )
        for variant, of_variant in scores.items()
        if (failed := sum(not math.isfinite(score) for score in of_variant.values()))
    )
    excluded_names = {variant.variant for variant in excluded}
    names = [variant for variant in scores if variant not in excluded_names]
    table = {
        variant: [float(scores[variant][seed]) for seed in seeds or scores[variant]]
        for variant in names
    }
    return SeedComparison(
        seeds=seeds,
        lower_is_better=lower_is_better,
        variants=tuple(_over_seeds(variant, table[variant]) for variant in names),
        pairs=_pairs(table, lower_is_better=lower_is_better) if is_paired else (),
        excluded=excluded,
    )


def _common_seeds(scores: Mapping[str, SeedScores]) -> tuple[int, ...]:
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for variant, of_variant in scores.items():
        by_seeds.setdefault(tuple(sorted(of_variant)), []).append(variant)
    if len(by_seeds) > 1:
        groups = "; ".join(
            f"{', '.join(variants)}: {', '.join(map(str, seeds)) or 'none'}"
            for seeds, variants in by_seeds.items()
        )
        raise RegardError(
            f"The variants have different seeds ({groups}). Runs are paired by seed: run the missing "
            "seeds, or remove those that not all variants have."
        )
    (seeds,) = by_seeds
    if not seeds:
        raise RegardError("0 seeds: there are no scores. Give each variant at least one run.")
    return seeds


def _over_seeds(variant: str, scores: Sequence[float]) -> VariantOverSeeds:
    return VariantOverSeeds(
        variant=variant, mean=float(np.mean(scores)), interval=seed_interval(scores)
    )


def _pairs(table: Mapping[str, Sequence[float]], *, lower_is_better: bool) -> tuple[SeedPair, ...]:
    if len(table) < 2:
        return ()
    names = list(table)
    scores = np.array([table[name] for name in names])
    tests = pair_tests(scores)
    seeds, pairs = scores.shape[1], len(tests.first)
    found = []
    for pair in range(pairs):
        difference, holm_p = float(tests.difference[pair]), float(tests.holm_p[pair])
        interval = simultaneous = detectable = None
        if tests.has_variance[pair]:
            error = float(tests.standard_error[pair])
            interval = _around(difference, critical_t(seeds=seeds, pairs=1) * error)
            simultaneous = _around(difference, critical_t(seeds=seeds, pairs=pairs) * error)
            detectable = smallest_detectable_difference(error, seeds=seeds, pairs=pairs)
        verdict: Verdict = significance_verdict(
            difference, adjusted_p=holm_p, lower_is_better=lower_is_better
        )
        if seeds < MIN_SEEDS:
            verdict = "too few seeds"
        elif not tests.has_variance[pair] and tests.p[pair] == 1:
            verdict = "same scores"
        found.append(
            SeedPair(
                first=names[tests.first[pair]],
                second=names[tests.second[pair]],
                difference=difference,
                interval=interval,
                simultaneous_interval=simultaneous,
                p=float(tests.p[pair]),
                holm_p=holm_p,
                detectable_difference=detectable,
                verdict=verdict,
            )
        )
    return tuple(found)


def _around(center: float, margin: float) -> Interval:
    return Interval(low=float(center - margin), high=float(center + margin))


MIN_PAIRING_SEEDS = 3


def pairing(scores: Mapping[str, SeedScores]) -> PairingRecord:
    """What pairing by seed achieves, from the scores of runs: variant → seed → score.

    The intraclass correlation is ICC(3,1) of Shrout and Fleiss (1979): a two-way analysis of variance with
    random seeds and fixed variants. It is an estimate, which may be negative; its interval assumes equal
    variances. Needs two variants and three seeds.

    >>> pairing({"dot": {0: 9.0, 1: 8.0, 2: 9.5}, "additive": {0: 8.0, 1: 7.0, 2: 8.5}}).variance_ratio
    0.0
    """
    validate_variants(scores)
    common = _common_seeds(scores)
    table = np.array([[of_variant[seed] for seed in common] for of_variant in scores.values()])
    variants, seeds = table.shape
    if variants < 2 or seeds < MIN_PAIRING_SEEDS:
        raise RegardError(
            f"{variants} variants and {seeds} seeds: pairing needs at least 2 variants and "
            f"{MIN_PAIRING_SEEDS} seeds."
        )
    if not np.isfinite(table).all():
        raise RegardError("A score is not finite. Remove the variants with failed runs.")
    tests = pair_tests(table)
    variances = table.var(axis=1, ddof=1)
    variances[np.ptp(table, axis=1) <= ROUNDING * np.abs(table).max(axis=1)] = 0.0
    sums = variances[tests.first] + variances[tests.second]
    of_differences = np.where(tests.has_variance, seeds * tests.standard_error**2, 0.0)
    geometric = np.sqrt(variances[tests.first] * variances[tests.second])
    covariances = (sums - of_differences) / 2
    # The mean over pairs of var(A − B) is twice the residual mean square; of var(A) + var(B), twice the
    # variance within variants.
    residual, within = of_differences.mean() / 2, sums.mean() / 2
    intraclass = low = high = detectable = unpaired = None
    if within > 0:
        intraclass = float(1 - residual / within)
        # Twice the degrees of freedom, 2 (seeds − 1), as with 2 · seeds − 1 seeds.
        unpaired = smallest_detectable_difference(
            math.sqrt(2 * within / seeds), seeds=2 * seeds - 1, pairs=len(sums)
        )
        if residual > 0:
            low, high = _intraclass_interval(intraclass, variants=variants, seeds=seeds)
            detectable = smallest_detectable_difference(
                math.sqrt(2 * residual / seeds), seeds=seeds, pairs=len(sums)
            )
    return PairingRecord(
        variants=variants,
        seeds=seeds,
        intraclass_correlation=intraclass,
        intraclass_low=low,
        intraclass_high=high,
        mean_correlation=_mean_ratio(covariances, geometric),
        variance_ratio=_mean_ratio(of_differences, sums),
        detectable_difference=detectable,
        unpaired_detectable_difference=unpaired,
    )


def _intraclass_interval(intraclass: float, *, variants: int, seeds: int) -> Interval:
    """The exact 95 % interval of ICC(3,1), from the F distribution of the ratio of mean squares."""
    between, residual = seeds - 1, (seeds - 1) * (variants - 1)
    ratio = (1 + (variants - 1) * intraclass) / (1 - intraclass)
    bounds = (
        ratio / float(fdtri(between, residual, 1 - LEVEL / 2)),
        ratio * float(fdtri(residual, between, 1 - LEVEL / 2)),
    )
    return Interval(*((bound - 1) / (bound + variants - 1) for bound in bounds))


def _mean_ratio(values: np.ndarray, totals: np.ndarray) -> float | None:
    """The mean of values / totals, without those whose total is zero."""
    known = totals > 0
    return float((values[known] / totals[known]).mean()) if known.any() else None
