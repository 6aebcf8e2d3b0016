"""The paired bootstrap over test items: how far a difference of scores would move with other items.

Items are drawn with replacement, the same ones for every variant, and the score is taken anew from the summed
statistics of what was drawn (Koehn 2004, for BLEU). Items with equal statistics are drawn together: how
often each kind comes up is multinomial, which is the same draw and a good deal less work.

The interval is Efron's BCa. The plain percentile interval takes the resampled differences as they fall;
BCa first corrects for their bias and their skew, both of which a ratio of sums such as an error rate has
when errors are few. Where there is neither, the two are the same. The p is the level at which the
interval would just touch zero, so that the two never disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from scipy.special import ndtr, ndtri

from regard.core.errors import RegardError
from regard.studies.statistics.paired import (
    LEVEL,
    ExcludedVariant,
    Interval,
    Verdict,
    claimed,
    holm_adjusted,
    require_variants,
    without_spread_p,
)

NUMBERS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class ItemKinds:
    """The different items: their statistics for all variants, and how many items have just these."""

    statistics: Float[np.ndarray, "kinds variants statistics"]
    counts: Int[np.ndarray, " kinds"]


def item_kinds(statistics: Float[np.ndarray, "items variants statistics"]) -> ItemKinds:
    """The different items among all."""
    items, variants, width = statistics.shape
    rows, counts = np.unique(statistics.reshape(items, -1), axis=0, return_counts=True)
    return ItemKinds(statistics=rows.reshape(len(rows), variants, width), counts=counts)


def resampled_sums(
    kinds: ItemKinds, *, resamples: int, generator: np.random.Generator
) -> Float[np.ndarray, "resamples variants statistics"]:
    """The summed statistics of each resample, drawn in portions that fit into memory."""
    count, variants, width = kinds.statistics.shape
    flat = kinds.statistics.reshape(count, variants * width)
    items = int(kinds.counts.sum())
    shares = kinds.counts / items
    sums = [
        # As floats: NumPy multiplies matrices of integers several times slower.
        generator.multinomial(items, shares, size=portion).astype(np.float64) @ flat
        for portion in _portions(resamples, each=max(1, NUMBERS_AT_ONCE // count))
    ]
    return np.concatenate(sums).reshape(resamples, variants, width)


def bca(
    resampled: Float[np.ndarray, " resamples"],
    *,
    observed: float,
    without_one: Float[np.ndarray, " kinds"],
    counts: Int[np.ndarray, " kinds"],
) -> tuple[Interval, float]:
    """The 95 % interval of a figure and the two-sided p of its being zero.

    `without_one` is the figure with one item of each kind left out; its skew is the skew of the
    figure. The resampled figures must not all be equal.
    """
    bias = ndtri(_share_below(resampled, observed))
    skew = _skew(without_one, counts)

    def shifted(z: float) -> float:
        return float(bias + (bias + z) / (1 - skew * (bias + z)))

    tail = float(ndtri(LEVEL / 2))
    low, high = np.quantile(resampled, [ndtr(shifted(tail)), ndtr(shifted(-tail))])
    # `shifted` turned round: the z whose end of the interval would fall on zero.
    at_zero = ndtri(_share_below(resampled, 0.0)) - bias
    z = at_zero / (1 + skew * at_zero) - bias
    return Interval(low=float(low), high=float(high)), min(1.0, float(2 * ndtr(-abs(z))))


def _share_below(resampled: Float[np.ndarray, " resamples"], figure: float) -> float:
    """The share of resamples below a figure, ties counted half; never quite none or all."""
    below = np.count_nonzero(resampled < figure) + np.count_nonzero(resampled == figure) / 2
    return float((below + 0.5) / (len(resampled) + 1))


def _skew(without_one: Float[np.ndarray, " kinds"], counts: Int[np.ndarray, " kinds"]) -> float:
    """The acceleration of BCa, from the jackknife."""
    deviations = np.average(without_one, weights=counts) - without_one
    squares = float(counts @ deviations**2)
    return float(counts @ deviations**3) / (6 * squares**1.5) if squares > 0 else 0.0


def _portions(total: int, *, each: int) -> Iterator[int]:
    for start in range(0, total, each):
        yield min(each, total - start)


# Are these trained models better on items like those of this test set? Paired by item.
#
# The models are what they are, and only the items are a sample. Nothing is said about what another
# training of the same method would give: that is `seed_comparison.py`. Statistics of several seeds
# may be added up beforehand; the answer is then about these models together.
#
# A claim needs some items in which the two variants differ at all. A bootstrap that sees a handful of
# them is far too sure of itself, however many items there are on which the variants agree.


FEWEST_DIFFERING_ITEMS = 50
RESAMPLES = 10_000
ROUNDING = 1e-12

ScoreOfSums = Callable[[np.ndarray], np.ndarray]
"""From summed statistics (..., k) to scores (...), as in `tasks/summed_scores.py`."""


@dataclass(frozen=True)
class VariantOnItems:
    """The score of one variant on the whole test set."""

    variant: str
    score: float


@dataclass(frozen=True)
class ItemPair:
    """Two sets of trained models compared. The difference is the first's score minus the second's."""

    first: str
    second: str
    difference: float
    interval: (
        Interval | None
    )  # 95 % for this pair alone (BCa); None where resampling changes nothing
    p: float
    holm_p: float  # what the verdict goes by
    differing_items: int
    verdict: Verdict

    def in_words(self) -> str:
        """The verdict as a sentence."""
        if self.verdict != "cannot tell apart":
            return (
                f"the models of {self.first} score {self.verdict} here than those of {self.second}"
            )
        told = f"the models of {self.first} and {self.second} cannot be told apart on these items"
        if self.differing_items < FEWEST_DIFFERING_ITEMS:
            told += f": they differ in {self.differing_items} of them, too few to tell by"
        return told


@dataclass(frozen=True)
class ItemComparison:
    """All variants on one test set, and every pair of them."""

    items: int
    resamples: int
    lower_is_better: bool
    variants: tuple[VariantOnItems, ...]
    pairs: tuple[ItemPair, ...]
    excluded: tuple[ExcludedVariant, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain fields, all the way down."""
        return asdict(self)


def compare_on_items(
    statistics: Mapping[str, Real[np.ndarray, "_ _"]],
    *,
    score: ScoreOfSums,
    lower_is_better: bool,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ItemComparison:
    """Compare trained models by the statistics (items, k) of each variant, the items in the same order.

    A variant with statistics that are not finite is left out of the comparisons, and listed.

    >>> from regard.tasks.metrics.metric import percentage
    >>> wrong = {"dot": [1, 1, 0, 1] * 50, "additive": [0, 1, 0, 0] * 50}
    >>> variants = {variant: np.stack([of_variant, np.ones(200)], axis=1) for variant, of_variant in wrong.items()}
    >>> compare_on_items(variants, score=percentage, lower_is_better=True).pairs[0].verdict
    'worse'
    """
    require_variants(statistics)
    items = _common_items(statistics)
    excluded = tuple(
        ExcludedVariant(
            variant=variant, reason=f"statistics of {int(unfit.sum())} of {items} items not finite"
        )
        for variant, of_variant in statistics.items()
        if (unfit := ~np.isfinite(of_variant).all(axis=1)).any()
    )
    left_out = {variant.variant for variant in excluded}
    names = [variant for variant in statistics if variant not in left_out]
    variants: tuple[VariantOnItems, ...] = ()
    pairs: tuple[ItemPair, ...] = ()
    if names:
        table = np.stack(
            [np.asarray(statistics[variant], dtype=np.float64) for variant in names], axis=1
        )
        scores = _finite(score(table.sum(axis=0)), what="the test set")
        variants = tuple(
            VariantOnItems(variant=variant, score=float(of_variant))
            for variant, of_variant in zip(names, scores, strict=True)
        )
        pairs = _pairs(
            names,
            table,
            score=score,
            lower_is_better=lower_is_better,
            resamples=resamples,
            generator=np.random.default_rng(seed),
        )
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
            "Variants are compared item by item: score all of them on the same items."
        )
    items = next(iter(shapes.values()))[0]
    if items == 0:
        raise RegardError("There is nothing to compare: 0 items. Give at least one.")
    return int(items)


def _pairs(
    names: list[str],
    table: Float[np.ndarray, "items variants statistics"],
    *,
    score: ScoreOfSums,
    lower_is_better: bool,
    resamples: int,
    generator: np.random.Generator,
) -> tuple[ItemPair, ...]:
    indices = list(combinations(range(len(names)), 2))
    if not indices:
        return ()
    items = len(table)
    observed = score(table.sum(axis=0))
    kinds = item_kinds(table)
    if items == 1:
        # It can only be drawn again, and nothing is left when it is left out.
        resampled, without_one = observed[None], observed[None]
    else:
        sums = resampled_sums(kinds, resamples=resamples, generator=generator)
        resampled = _finite(score(sums), what="a resample of the test set")
        without_one = _finite(
            score(table.sum(axis=0) - kinds.statistics), what="the test set without one item"
        )
    tested = [
        _tested(
            observed=observed[first] - observed[second],
            resampled=resampled[:, first] - resampled[:, second],
            without_one=without_one[:, first] - without_one[:, second],
            kinds=kinds,
            rounding=ROUNDING * float(np.abs(observed[[first, second]]).max()),
        )
        for first, second in indices
    ]
    adjusted = holm_adjusted(np.array([p for _, p in tested]))
    found = []
    for (first, second), (interval, p), holm_p in zip(indices, tested, adjusted, strict=True):
        difference = float(observed[first] - observed[second])
        differ: Bool[np.ndarray, " items"] = (table[:, first] != table[:, second]).any(axis=1)
        differing = int(differ.sum())
        verdict: Verdict = (
            "cannot tell apart"
            if differing < FEWEST_DIFFERING_ITEMS
            else claimed(difference, adjusted_p=float(holm_p), lower_is_better=lower_is_better)
        )
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


def _tested(
    *,
    observed: float,
    resampled: Float[np.ndarray, " resamples"],
    without_one: Float[np.ndarray, " kinds"],
    kinds: ItemKinds,
    rounding: float,
) -> tuple[Interval | None, float]:
    if np.ptp(resampled) > rounding:
        return bca(
            resampled, observed=float(observed), without_one=without_one, counts=kinds.counts
        )
    if abs(observed) <= rounding:
        return None, 1.0
    return None, without_spread_p(observations=int(kinds.counts.sum()))


def _finite(scores: np.ndarray, *, what: str) -> np.ndarray:
    if not np.isfinite(scores).all():
        raise RegardError(
            f"The score of {what} is not a finite number: the statistics add up to a length of zero, "
            "or the score function is wrong. Leave out empty items, or give more of them."
        )
    return scores
