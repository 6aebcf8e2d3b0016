"""The paired t test of every pair of arms, on arrays: one study or thousands of them at once.

A seed fixes the initial weights as far as arms share them, and the order of the data, so a seed that is
lucky for one arm tends to be lucky for all. Only differences within a seed are looked at, and what all
arms have in common drops out.

Each pair is tested with the variance of its own differences. A variance pooled over all arms would be a
steadier estimate, but raises false alarms when one arm varies more than the others, as a mechanism that
is hard to train does. The paired t test is exact for normal differences whatever the variances, and is on
the safe side for symmetric differences with heavier tails. It is not when one arm has rare but terrible
runs: differences are then skewed, and no test of five seeds can make up for that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtr

from regard.studies.holm import holm_adjusted
from regard.studies.verdicts import without_spread_p

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


def pair_tests(scores: Float[np.ndarray, "*studies arms seeds"]) -> PairTests:
    """Test every pair of arms; the difference is the earlier arm's score minus the later one's."""
    arms, seeds = scores.shape[-2:]
    first, second = np.triu_indices(arms, k=1)
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
