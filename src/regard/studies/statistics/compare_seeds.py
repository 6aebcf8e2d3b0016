"""Is one method better than another, over seeds? Scores (variants × seeds), paired by seed.

Every pair of variants gets a paired t test, and Holm's correction over all the pairs keeps the chance of any
false claim in a whole study at 5 %. With fewer than five seeds no claim is made: the verdict is "these
runs only". Beside each verdict stands the smallest difference that the study could have found, so that
"cannot tell apart" is not read as "equal".

A bootstrap over seeds is not offered: with two or three seeds it sees a difference between equal variants in
a half or a quarter of all studies (`python -m benchmarks study_statistics` shows it).
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
    claimed,
    critical_t,
    detectable_difference,
    pair_tests,
    require_variants,
    seed_interval,
)

FEWEST_SEEDS = 5

SeedScores = Mapping[int, float]


@dataclass(frozen=True)
class VariantOverSeeds:
    """The mean of one variant, with a 95 % t interval for its mean over all seeds there could be."""

    variant: str
    mean: float
    interval: Interval | None  # None where the scores of one seed, or all alike, show no spread


@dataclass(frozen=True)
class SeedPair:
    """Two methods compared. The difference is the first's score minus the second's."""

    first: str
    second: str
    difference: float
    interval: Interval | None  # 95 % for this pair alone; None where the differences have no spread
    simultaneous_interval: Interval | None  # 95 % for all pairs of the study together (Bonferroni)
    p: float
    holm_p: float  # what the verdict goes by
    detectable: (
        float | None
    )  # found with 80 % power had it been the true difference (detectable.py)
    verdict: Verdict

    def in_words(self) -> str:
        """The verdict as a sentence."""
        match self.verdict:
            case "these runs only":
                return (
                    f"{self.first} and {self.second}: these runs only; "
                    f"a claim about methods takes {FEWEST_SEEDS} seeds"
                )
            case "cannot tell apart" if self.detectable is None:
                return (
                    f"{self.first} and {self.second} cannot be told apart: "
                    "their differences do not vary over seeds, so there is no t test"
                )
            case "cannot tell apart":
                return (
                    f"{self.first} and {self.second} cannot be told apart; "
                    f"a difference of {self.detectable:.3g} would probably have been found"
                )
            case verdict:
                return f"{self.first} is {verdict} than {self.second}"


@dataclass(frozen=True)
class SeedComparison:
    """All variants over all seeds, and every pair of them."""

    seeds: tuple[int, ...]
    lower_is_better: bool
    variants: tuple[VariantOverSeeds, ...]
    pairs: tuple[SeedPair, ...]
    excluded: tuple[ExcludedVariant, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain fields, all the way down."""
        return asdict(self)


def compare_over_seeds(
    scores: Mapping[str, SeedScores], *, lower_is_better: bool
) -> SeedComparison:
    """Compare methods by the scores of their runs: variant → seed → score.

    All variants must have been run with the same seeds. A variant with a score that is not finite is left out of
    the comparisons, and listed.

    >>> runs = {"dot": {0: 9.0, 1: 8.0, 2: 9.5}, "additive": {0: 7.0, 1: 7.5, 2: 8.0}}
    >>> compare_over_seeds(runs, lower_is_better=True).pairs[0].verdict
    'these runs only'
    """
    require_variants(scores)
    seeds = _common_seeds(scores)
    excluded = tuple(
        ExcludedVariant(
            variant=variant, reason=f"no finite score with {len(failed)} of {len(seeds)} seeds"
        )
        for variant, of_variant in scores.items()
        if (failed := [seed for seed in seeds if not math.isfinite(of_variant[seed])])
    )
    left_out = {variant.variant for variant in excluded}
    names = [variant for variant in scores if variant not in left_out]
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
            f"The variants were not run with the same seeds ({groups}). Runs are compared seed by seed: "
            "run the seeds that are missing, or leave out those that not all variants have."
        )
    (seeds,) = by_seeds
    if not seeds:
        raise RegardError("There are no scores: 0 seeds. Give each variant at least one run.")
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
        if tests.has_spread[pair]:
            error = float(tests.standard_error[pair])
            interval = _around(difference, critical_t(seeds=seeds, pairs=1) * error)
            simultaneous = _around(difference, critical_t(seeds=seeds, pairs=pairs) * error)
            detectable = detectable_difference(error, seeds=seeds, pairs=pairs)
        verdict: Verdict = (
            "these runs only"
            if seeds < FEWEST_SEEDS
            else claimed(difference, adjusted_p=holm_p, lower_is_better=lower_is_better)
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
                detectable=detectable,
                verdict=verdict,
            )
        )
    return tuple(found)


def _around(middle: float, reach: float) -> Interval:
    return Interval(low=float(middle - reach), high=float(middle + reach))
