"""Paired bootstrap over test items: are these trained models better on similar items?

Items are resampled with replacement, the same ones for every variant, and scores are computed from the
summed statistics of each resample (Koehn 2004, for BLEU). Items with equal statistics are resampled
together from a multinomial distribution, which is equivalent and faster.

Intervals are Efron's BCa (bias-corrected and accelerated): the percentile interval corrected for bias and
skewness, which error rates have when errors are few. The p-value is the level at which the interval would
just touch zero, so that interval and p-value always agree.

Only the items are treated as a sample: nothing is said about other training runs of the method, which is
`paired.py`. Statistics of several seeds may be summed beforehand; the result is then about these
models together. A claim needs a minimum number of items on which two variants differ, since the bootstrap
is overconfident with a handful of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from scipy.special import ndtr, ndtri

from regard.core.errors import RegardError
from regard.studies.statistics.paired import (
    LEVEL,
    ExcludedVariant,
    Interval,
    Verdict,
    holm_adjusted,
    sign_test_p,
    significance_verdict,
    validate_variants,
)

MAX_BLOCK = 4_000_000  # numbers drawn at a time, to limit memory


@dataclass(frozen=True)
class UniqueItems:
    """The distinct item statistics over all variants, and how many items have each."""

    statistics: Float[np.ndarray, "unique variants statistics"]
    counts: Int[np.ndarray, " unique"]


def unique_items(statistics: Float[np.ndarray, "items variants statistics"]) -> UniqueItems:
    """Group items by equal statistics."""
    items, variants, width = statistics.shape
    rows, counts = np.unique(statistics.reshape(items, -1), axis=0, return_counts=True)
    return UniqueItems(statistics=rows.reshape(len(rows), variants, width), counts=counts)


def resampled_sums(
    unique: UniqueItems, *, resamples: int, generator: np.random.Generator
) -> Float[np.ndarray, "resamples variants statistics"]:
    """The summed statistics of each resample, drawn in blocks that fit into memory."""
    count, variants, width = unique.statistics.shape
    flat = unique.statistics.reshape(count, variants * width)
    items = int(unique.counts.sum())
    probabilities = unique.counts / items
    sums = [
        # As floats: NumPy multiplies integer matrices several times slower.
        generator.multinomial(items, probabilities, size=block).astype(np.float64) @ flat
        for block in _blocks(resamples, each=max(1, MAX_BLOCK // count))
    ]
    return np.concatenate(sums).reshape(resamples, variants, width)


def bca(
    resampled: Float[np.ndarray, " resamples"],
    *,
    observed: float,
    jackknife: Float[np.ndarray, " unique"],
    counts: Int[np.ndarray, " unique"],
) -> tuple[Interval, float]:
    """The 95 % BCa interval of a statistic, and the two-sided p-value of zero.

    `jackknife` is the statistic with one item of each kind removed. The resampled values must not all be
    equal.
    """
    bias = ndtri(_fraction_below(resampled, observed))
    acceleration = _acceleration(jackknife, counts)

    def shifted(z: float) -> float:
        return float(bias + (bias + z) / (1 - acceleration * (bias + z)))

    tail = float(ndtri(LEVEL / 2))
    low, high = np.quantile(resampled, [ndtr(shifted(tail)), ndtr(shifted(-tail))])
    # The inverse of `shifted`: the z at which the end of the interval is zero.
    at_zero = ndtri(_fraction_below(resampled, 0.0)) - bias
    z = at_zero / (1 + acceleration * at_zero) - bias
    return Interval(low=float(low), high=float(high)), min(1.0, float(2 * ndtr(-abs(z))))


def _fraction_below(resampled: Float[np.ndarray, " resamples"], value: float) -> float:
    """The fraction of resamples below a value, ties counted half; never exactly 0 or 1."""
    below = np.count_nonzero(resampled < value) + np.count_nonzero(resampled == value) / 2
    return float((below + 0.5) / (len(resampled) + 1))


def _acceleration(
    jackknife: Float[np.ndarray, " unique"], counts: Int[np.ndarray, " unique"]
) -> float:
    """The acceleration of BCa, from the jackknife."""
    deviations = np.average(jackknife, weights=counts) - jackknife
    squares = float(counts @ deviations**2)
    return float(counts @ deviations**3) / (6 * squares**1.5) if squares > 0 else 0.0


def _blocks(total: int, *, each: int) -> Iterator[int]:
    for start in range(0, total, each):
        yield min(each, total - start)


MIN_DIFFERING_ITEMS = 50
RESAMPLES = 10_000
ROUNDING = 1e-12

ScoreOfSums = Callable[[np.ndarray], np.ndarray]
"""From summed statistics (..., k) to scores (...); see `regard.tasks.metrics`."""


@dataclass(frozen=True)
class VariantOnItems:
    """The score of a variant on the test set."""

    variant: str
    score: float
    interval: Interval | None  # 95 % BCa; None if all resamples are equal


@dataclass(frozen=True)
class ItemPair:
    """A comparison of two sets of trained models. The difference is the first score minus the second."""

    first: str
    second: str
    difference: float
    interval: Interval | None  # 95 % BCa for this pair alone; None if all resamples are equal
    p: float
    holm_p: float  # decides the verdict
    differing_items: int
    verdict: Verdict

    def sentence(self) -> str:
        """The verdict as a sentence."""
        if self.verdict == "same scores":
            return f"the models of {self.first} and {self.second} have the same score on every item"
        if self.verdict != "inconclusive":
            return (
                f"the models of {self.first} score {self.verdict} here than those of {self.second}"
            )
        text = f"models of {self.first} vs {self.second}: inconclusive on these items"
        if self.differing_items < MIN_DIFFERING_ITEMS:
            text += f"; they differ on {self.differing_items}, a claim needs {MIN_DIFFERING_ITEMS}"
        return text


@dataclass(frozen=True)
class ItemComparison:
    """All variants on one test set, and all pairs."""

    items: int
    resamples: int
    lower_is_better: bool
    variants: tuple[VariantOnItems, ...]
    pairs: tuple[ItemPair, ...]
    excluded: tuple[ExcludedVariant, ...]

    def as_json(self) -> dict[str, Any]:
        """JSON-compatible values."""
        return asdict(self)


def compare_on_items(
    statistics: Mapping[str, Real[np.ndarray, "_ _"]],
    *,
    score: ScoreOfSums,
    lower_is_better: bool,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ItemComparison:
    """Compare trained models by the statistics (items, k) of each variant, with items in the same order.

    Variants with statistics that are not finite are excluded, and listed.

    >>> from regard.tasks.metrics import ExactMatchError
    >>> wrong = {"dot": [1, 1, 0, 1] * 50, "additive": [0, 1, 0, 0] * 50}
    >>> variants = {name: np.stack([errors, np.ones(200)], axis=1) for name, errors in wrong.items()}
    >>> score = ExactMatchError().score
    >>> compare_on_items(variants, score=score, lower_is_better=True).pairs[0].verdict
    'worse'
    """
    validate_variants(statistics)
    items = _common_items(statistics)
    excluded = tuple(
        ExcludedVariant(
            variant=variant,
            reason=f"statistics of {int(invalid.sum())} of {items} items not finite",
        )
        for variant, of_variant in statistics.items()
        if (invalid := ~np.isfinite(of_variant).all(axis=1)).any()
    )
    excluded_names = {variant.variant for variant in excluded}
    names = [variant for variant in statistics if variant not in excluded_names]
    variants: tuple[VariantOnItems, ...] = ()
    pairs: tuple[ItemPair, ...] = ()
    if names:
        table = np.stack(
            [np.asarray(statistics[variant], dtype=np.float64) for variant in names], axis=1
        )
        sample = _Sample.draw(
            table, score=score, resamples=resamples, generator=np.random.default_rng(seed)
        )
        variants = tuple(
            VariantOnItems(
                variant=variant,
                score=float(sample.observed[number]),
                interval=sample.tested(np.eye(len(names))[number])[0],
            )
            for number, variant in enumerate(names)
        )
        pairs = _pairs(names, table, sample, lower_is_better=lower_is_better)
    return ItemComparison(
        items=items,
        resamples=resamples,
        lower_is_better=lower_is_better,
        variants=variants,
        pairs=pairs,
        excluded=excluded,
    )


def _common_items(statistics: Mapping[str, Real[np.ndarray, "_ _"]]) -> int:
    shapes = {variant: of_variant.shape for variant, of_variant in statistics.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{variant} {shape}" for variant, shape in shapes.items())
        raise RegardError(
            f"The variants have statistics of different shapes (items, statistics): {listed}. "
            "Evaluate all variants on the same items."
        )
    items = next(iter(shapes.values()))[0]
    if items == 0:
        raise RegardError("0 items: there is nothing to compare. Give at least one.")
    return int(items)


@dataclass(frozen=True)
class _Sample:
    """The scores of all variants: observed, of each resample, and without one item of each kind."""

    observed: Float[np.ndarray, " variants"]
    resampled: Float[np.ndarray, "resamples variants"]
    jackknife: Float[np.ndarray, "unique variants"]
    counts: Int[np.ndarray, " unique"]

    @classmethod
    def draw(
        cls,
        table: Float[np.ndarray, "items variants statistics"],
        *,
        score: ScoreOfSums,
        resamples: int,
        generator: np.random.Generator,
    ) -> Self:
        total = table.sum(axis=0)
        observed = _finite(score(total), what="the test set")
        unique = unique_items(table)
        # One item has no other resample and no jackknife.
        resampled = jackknife = observed[None]
        if len(table) > 1:
            sums = resampled_sums(unique, resamples=resamples, generator=generator)
            resampled = _finite(score(sums), what="a resample of the test set")
            jackknife = _finite(
                score(total - unique.statistics), what="the test set without one item"
            )
        return cls(observed, resampled, jackknife, unique.counts)

    def tested(self, weights: Float[np.ndarray, " variants"]) -> tuple[Interval | None, float]:
        """Interval and p-value of a weighted sum of the scores, such as a difference."""
        chosen = np.flatnonzero(weights)
        observed, resampled, jackknife = (
            scores[..., chosen] @ weights[chosen]
            for scores in (self.observed, self.resampled, self.jackknife)
        )
        rounding = ROUNDING * float(np.abs(self.observed[chosen]).max())
        if np.ptp(resampled) > rounding:
            return bca(resampled, observed=float(observed), jackknife=jackknife, counts=self.counts)
        if abs(observed) <= rounding:
            return None, 1.0
        return None, sign_test_p(observations=int(self.counts.sum()))


def _pairs(
    names: list[str],
    table: Float[np.ndarray, "items variants statistics"],
    sample: _Sample,
    *,
    lower_is_better: bool,
) -> tuple[ItemPair, ...]:
    indices = list(combinations(range(len(names)), 2))
    if not indices:
        return ()
    of_variant = np.eye(len(names))
    tested = [sample.tested(of_variant[first] - of_variant[second]) for first, second in indices]
    adjusted = holm_adjusted(np.array([p for _, p in tested]))
    found = []
    for (first, second), (interval, p), holm_p in zip(indices, tested, adjusted, strict=True):
        difference = float(sample.observed[first] - sample.observed[second])
        differ: Bool[np.ndarray, " items"] = (table[:, first] != table[:, second]).any(axis=1)
        differing = int(differ.sum())
        verdict: Verdict = significance_verdict(
            difference, adjusted_p=float(holm_p), lower_is_better=lower_is_better
        )
        if differing < MIN_DIFFERING_ITEMS:
            verdict = "inconclusive" if differing else "same scores"
        found.append(
            ItemPair(
                first=names[first],
                second=names[second],
                difference=difference,
                interval=interval,
                p=p,
                holm_p=float(holm_p),
                differing_items=differing,
                verdict=verdict,
            )
        )
    return tuple(found)


def _finite(scores: np.ndarray, *, what: str) -> np.ndarray:
    if not np.isfinite(scores).all():
        raise RegardError(
            f"The score of {what} is not finite: the statistics sum to a length of zero, or the score "
            "function is wrong. Remove empty items, or give more items."
        )
    return scores
