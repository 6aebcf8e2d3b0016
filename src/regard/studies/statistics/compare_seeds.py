"""Comparison of methods over seeds: paired t tests with Holm's correction.

Every pair of variants is tested, and Holm's correction keeps the family-wise error rate of a study at 5 %.
With fewer than five seeds no claim is made: the verdict is "too few seeds". An "inconclusive" verdict comes
with the smallest detectable difference, so that it is not read as "equal".

A bootstrap over seeds is not offered: with two or three seeds it finds a difference between equal
variants in half or a quarter of all studies (`python -m benchmarks study_statistics` shows it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.core.errors import RegardError
from regard.studies.statistics.paired import (
    ExcludedVariant,
    Interval,
    Verdict,
    critical_t,
    pair_tests,
    seed_interval,
    significance_verdict,
    smallest_detectable_difference,
    validate_variants,
)

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
    scores: Mapping[str, SeedScores], *, lower_is_better: bool
) -> SeedComparison:
    """Compare methods by the scores of their runs: variant → seed → score.

    All variants must have the same seeds. Variants with a score that is not finite are excluded, and
    listed.

    >>> runs = {"dot": {0: 9.0, 1: 8.0, 2: 9.5}, "additive": {0: 7.0, 1: 7.5, 2: 8.0}}
    >>> compare_over_seeds(runs, lower_is_better=True).pairs[0].verdict
    'too few seeds'
    """
    validate_variants(scores)
    seeds = _common_seeds(scores)
    excluded = tuple(
        ExcludedVariant(
            variant=variant, reason=f"no finite score for {len(failed)} of {len(seeds)} seeds"
        )
        for variant, of_variant in scores.items()
        if (failed := [seed for seed in seeds if not math.isfinite(of_variant[seed])])
    )
    excluded_names = {variant.variant for variant in excluded}
    names = [variant for variant in scores if variant not in excluded_names]
    table = {variant: [float(scores[variant][seed]) for seed in seeds] for variant in names}
    return SeedComparison(
        seeds=seeds,
        lower_is_better=lower_is_better,
        variants=tuple(_over_seeds(variant, table[variant]) for variant in names),
        pairs=_pairs(table, lower_is_better=lower_is_better),
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
        verdict: Verdict = (
            "too few seeds"
            if seeds < MIN_SEEDS
            else significance_verdict(
                difference, adjusted_p=holm_p, lower_is_better=lower_is_better
            )
        )
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
