"""The paired t test of every pair of variants, on arrays: one study or thousands of them at once.

A seed fixes the initial weights as far as variants share them, and the order of the data, so a seed that is
lucky for one variant tends to be lucky for all. Only differences within a seed are looked at, and what all
variants have in common drops out.

Each pair is tested with the variance of its own differences. A variance pooled over all variants would be a
steadier estimate, but raises false alarms when one variant varies more than the others, as a mechanism that
is hard to train does. The paired t test is exact for normal differences whatever the variances, and is on
the safe side for symmetric differences with heavier tails. It is not when one variant has rare but terrible
runs: differences are then skewed, and no test of five seeds can make up for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import chdtri, nctdtrinc, stdtr, stdtrit

from regard.core.errors import RegardError

# Holm's correction: many comparisons at once, and still one false alarm in twenty studies at most.
#
# The smallest of m p-values is multiplied by m, the next by m − 1, and so on; none may come out
# smaller than the one before it, nor larger than one. It asks nothing of the p-values but that each
# is right by itself, so variants may share seeds and differ in variance (Holm 1979).


def holm_adjusted(p: Float[np.ndarray, "*studies pairs"]) -> Float[np.ndarray, "*studies pairs"]:
    """Each p as it is to be held against the level, where the last axis is one family.

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


# The words a comparison may end in, and the parts that both kinds of comparison share.
#
# There are two questions, and an answer to one is never an answer to the other:
#
# - `item_comparison.py`: are *these trained models* better on items like those of this test set? -
# `seed_comparison.py`: is the *method* better, whatever seed it is trained with?


LEVEL = 0.05
"""How often a study of equal variants may claim any difference at all."""

Verdict = Literal["better", "worse", "cannot tell apart", "these runs only"]
"""Said of the first variant of a pair: it is better or worse than the second."""


class Interval(NamedTuple):
    """Where a figure lies, with a confidence that its owner names."""

    low: float
    high: float


@dataclass(frozen=True)
class ExcludedVariant:
    """A variant that was left out of every comparison, and why."""

    variant: str
    reason: str


def claimed(
    difference: float, *, adjusted_p: float, lower_is_better: bool
) -> Literal["better", "worse", "cannot tell apart"]:
    """The verdict on the first variant when the difference is the first score minus the second.

    >>> claimed(-1.5, adjusted_p=0.01, lower_is_better=True)
    'better'
    """
    if adjusted_p > LEVEL:
        return "cannot tell apart"
    return "better" if (difference < 0) == lower_is_better else "worse"


def without_spread_p(*, observations: int) -> float:
    """The p of observations that all show the very same difference: a sign test.

    A t test or a bootstrap would be infinitely sure, since it has seen no chance at work. All that
    such observations show is that each of them points the same way, as coins do once in 2ⁿ⁻¹.

    >>> without_spread_p(observations=5)
    0.0625
    """
    return 2.0 ** (1 - observations)


def require_variants(variants: Iterable[str]) -> None:
    """Refuse a study without variants."""
    if not list(variants):
        raise RegardError("There is nothing to compare: 0 variants. Give at least one variant.")


ROUNDING = 1e-12
"""Differences this small a part of the scores are what rounding leaves, not a spread."""


@dataclass(frozen=True)
class PairTests:
    """What the tests of all pairs gave; arrays end in the axis of pairs."""

    first: Int[np.ndarray, " pairs"]
    second: Int[np.ndarray, " pairs"]
    difference: Float[np.ndarray, "*studies pairs"]
    standard_error: Float[np.ndarray, "*studies pairs"]
    has_spread: Bool[np.ndarray, "*studies pairs"]  # without one, only p says something
    p: Float[np.ndarray, "*studies pairs"]
    holm_p: Float[np.ndarray, "*studies pairs"]


def pair_tests(scores: Float[np.ndarray, "*studies variants seeds"]) -> PairTests:
    """Test every pair of variants; the difference is the earlier variant's score minus the later one's."""
    variants, seeds = scores.shape[-2:]
    first, second = np.triu_indices(variants, k=1)
    differences = scores[..., first, :] - scores[..., second, :]
    largest = np.abs(scores).max(axis=-1)
    rounding = ROUNDING * np.maximum(largest[..., first], largest[..., second])
    mean = differences.mean(axis=-1)
    spread = differences.std(axis=-1, ddof=1) if seeds > 1 else np.zeros_like(mean)
    standard_error = spread / np.sqrt(seeds)
    has_spread = spread > rounding
    t = np.divide(mean, standard_error, out=np.zeros_like(mean), where=has_spread)
    constant_p = np.where(np.abs(mean) > rounding, without_spread_p(observations=seeds), 1.0)
    p = np.where(has_spread, 2 * stdtr(max(seeds - 1, 1), -np.abs(t)), constant_p)
    return PairTests(
        first=first,
        second=second,
        difference=mean,
        standard_error=standard_error,
        has_spread=has_spread,
        p=p,
        holm_p=holm_adjusted(p),
    )


# The smallest true difference that a study of so many seeds and pairs would have found.
#
# "Found" means that the paired t test passes at the level that Bonferroni's correction leaves a
# pair, which is the strictest that Holm's may ask for; so the power under Holm is never less. The
# power of a t test at a given true difference follows from the noncentral t distribution, if the
# variance is known.
#
# It is not: a handful of seeds estimates it badly, and often too low. Were the estimate taken at
# its word, a study of five seeds repeated at the difference it reported would find it two times in
# three only, not four in five. So the upper end of an 80 % confidence bound for the spread takes
# its place: four studies of five then report a difference at which their power really is 80 % or
# more. (`python -m benchmarks study_statistics` measures both.)
#
# The variance is that of the pair's own differences. Pooling it over the whole grid would be less
# noisy, but is wrong for the noisier variants when variances differ; and a difference could then be
# called detectable, be observed, and still not be claimed. With the pair's own spread this cannot
# happen.


POWER = 0.8
SURE = 0.8
"""The share of studies whose reported difference really has that power."""


def critical_t(*, seeds: int, pairs: int) -> float:
    """How large |t| has to be when one level is shared among pairs, by Bonferroni's rule."""
    return -float(stdtrit(seeds - 1, LEVEL / (2 * pairs)))


def detectable_in_errors(*, seeds: int, pairs: int) -> float:
    """The difference found with 80 % power, in true standard errors of the mean difference."""
    return float(nctdtrinc(seeds - 1, 1 - POWER, critical_t(seeds=seeds, pairs=pairs)))


def spread_factor(*, seeds: int) -> float:
    """What an estimated spread is multiplied by so as to exceed the true one in 80 % of studies."""
    return math.sqrt((seeds - 1) / float(chdtri(seeds - 1, SURE)))


def detectable_difference(standard_error: float, *, seeds: int, pairs: int) -> float:
    """The smallest detectable difference, from the estimated standard error of the mean difference."""
    return (
        detectable_in_errors(seeds=seeds, pairs=pairs) * spread_factor(seeds=seeds) * standard_error
    )


# The 95 % t interval of a mean over seeds.


def seed_interval(values: Sequence[float]) -> Interval | None:
    """Of the mean over all seeds there could be; None where one seed, or all alike, show no spread.

    >>> seed_interval([2.0]) is None
    True
    """
    found = np.array(values)
    if len(found) == 1 or np.ptp(found) <= ROUNDING * np.abs(found).max():
        return None
    error = float(found.std(ddof=1)) / math.sqrt(len(found))
    reach = critical_t(seeds=len(found), pairs=1) * error
    mean = float(found.mean())
    return Interval(low=mean - reach, high=mean + reach)
