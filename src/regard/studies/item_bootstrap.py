"""The paired bootstrap over test items: how far a difference of scores would move with other items.

Items are drawn with replacement, the same ones for every arm, and the score is taken anew from the summed
statistics of what was drawn (Koehn 2004, for BLEU). Items with equal statistics are drawn together: how
often each kind comes up is multinomial, which is the same draw and a good deal less work.

The interval is Efron's BCa. The plain percentile interval takes the resampled differences as they fall;
BCa first corrects for their bias and their skew, both of which a ratio of sums such as an error rate has
when errors are few. Where there is neither, the two are the same. The p is the level at which the
interval would just touch zero, so that the two never disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from regard.studies.verdicts import LEVEL, Interval

NUMBERS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class ItemKinds:
    """The different items: their statistics for all arms, and how many items have just these."""

    statistics: Float[np.ndarray, "kinds arms statistics"]
    counts: Int[np.ndarray, " kinds"]


def item_kinds(statistics: Float[np.ndarray, "items arms statistics"]) -> ItemKinds:
    """The different items among all."""
    items, arms, width = statistics.shape
    rows, counts = np.unique(statistics.reshape(items, -1), axis=0, return_counts=True)
    return ItemKinds(statistics=rows.reshape(len(rows), arms, width), counts=counts)


def resampled_sums(
    kinds: ItemKinds, *, resamples: int, generator: np.random.Generator
) -> Float[np.ndarray, "resamples arms statistics"]:
    """The summed statistics of each resample, drawn in portions that fit into memory."""
    count, arms, width = kinds.statistics.shape
    flat = kinds.statistics.reshape(count, arms * width)
    items = int(kinds.counts.sum())
    shares = kinds.counts / items
    sums = [
        # As floats: NumPy multiplies matrices of integers several times slower.
        generator.multinomial(items, shares, size=portion).astype(np.float64) @ flat
        for portion in _portions(resamples, each=max(1, NUMBERS_AT_ONCE // count))
    ]
    return np.concatenate(sums).reshape(resamples, arms, width)


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
