"""What every task says about its scores: which there are, and how they come from single items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.core.errors import RegardError
from regard.core.registry import look_up

# Scores of a test set from statistics that were added up over its items, for many samples at once.
#
# Statistics stand in the last axis. A score of sums is not a mean of the items' own scores: an
# error rate is all edits over all lengths (`edit_rates.py`), and BLEU and chrF count their n-grams
# over the whole corpus (`text_scores.py`). Those files give the statistics of single items.


CHARACTER_ORDERS = 6
RECALL_WEIGHT = 4  # β² of chrF2: what is found counts twice as much as what is put in


class SummedMetric(NamedTuple):
    """A metric that is a function of sums over items.

    `statistics` takes predictions and the answers to each, and gives what every item adds; `score`
    takes sums of that.
    """

    statistics: Callable[[Sequence[str], Sequence[Sequence[str]]], Sequence[Sequence[float]]]
    score: Callable[[Float[np.ndarray, "*samples k"]], Float[np.ndarray, "*samples"]]


def fraction(sums: Float[np.ndarray, "*samples 2"]) -> Float[np.ndarray, "*samples"]:
    """The first sum over the second: edits and lengths, or rates and ones.

    Of nothing it is not a number.

    >>> fraction(np.array([3.0, 12.0])).item()
    0.25
    """
    part, whole = sums[..., 0], sums[..., 1]
    return np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)


def percentage(sums: Float[np.ndarray, "*samples 2"]) -> Float[np.ndarray, "*samples"]:
    """The first sum in percent of the second: edits and lengths, or wrong items and ones.

    >>> percentage(np.array([3.0, 12.0])).item()
    25.0
    """
    return np.asarray(100.0 * fraction(sums))


def bleu_from_sums(sums: Float[np.ndarray, "*samples 10"]) -> Float[np.ndarray, "*samples"]:
    """BLEU-4 in percent with exponential smoothing, as sacrebleu computes it.

    The sums are, in sacrebleu's order: length predicted, length of the reference, matching n-grams of
    length 1 to 4, all predicted n-grams of length 1 to 4.
    """
    predicted, reference = sums[..., 0], sums[..., 1]
    matches, totals = np.split(sums[..., 2:], 2, axis=-1)
    # The first order without a match counts as half a match, the next as a quarter, and so on.
    missed = matches == 0
    credited = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matches)
    counted = totals > 0
    precision = np.divide(credited, totals, out=np.ones_like(totals), where=counted)
    mean = np.exp(np.log(precision).mean(axis=-1))
    ratio = np.divide(reference, predicted, out=np.ones_like(predicted), where=predicted > 0)
    brevity = np.exp(np.minimum(0.0, 1.0 - ratio))
    scored = counted.all(axis=-1) & ~missed.all(axis=-1)
    return np.where(scored, 100.0 * brevity * mean, 0.0)


def chrf_from_sums(sums: Float[np.ndarray, "*samples 18"]) -> Float[np.ndarray, "*samples"]:
    """chrF2 in percent, as sacrebleu computes it.

    The sums are, for each length of n-grams from 1 to 6: those predicted, those of the reference, those
    they share. A length that either side is too short for does not count.
    """
    counts = sums.reshape(*sums.shape[:-1], CHARACTER_ORDERS, 3)
    predicted, reference, shared = counts[..., 0], counts[..., 1], counts[..., 2]
    counted = (predicted > 0) & (reference > 0)
    orders = np.maximum(1, counted.sum(axis=-1))
    precision, recall = (
        np.divide(shared, of, out=np.zeros_like(of), where=counted).sum(axis=-1) / orders
        for of in (predicted, reference)
    )
    weighed = RECALL_WEIGHT * precision + recall
    score = (1 + RECALL_WEIGHT) * precision * recall
    return np.asarray(
        100.0 * np.divide(score, weighed, out=np.zeros_like(score), where=weighed > 0)
    )


class ItemScores:
    """The part of a task that is about scores; a task says `metrics` and `summed`."""

    # name of a score → whether a smaller one is better
    metrics: ClassVar[dict[str, bool]]
    # those of them that are a function of sums over items
    summed: ClassVar[dict[str, SummedMetric]] = {}

    @classmethod
    def item_statistics(
        cls, metric: str, predicted: Sequence[str], answers: Sequence[Sequence[str]]
    ) -> Float[np.ndarray, "items k"]:
        """What every item adds to the sums that `summed_metric(metric).score` turns into the metric."""
        statistics = cls.summed_metric(metric).statistics(predicted, answers)
        return np.array(statistics, dtype=np.float64)

    @classmethod
    def summed_metric(cls, metric: str) -> SummedMetric:
        """The metric as a function of sums over items; one that is none is an error."""
        look_up("metric", metric, cls.metrics)
        if metric not in cls.summed:
            raise RegardError(
                f"The metric '{metric}' is not a function of what was predicted, so it cannot be taken "
                f"item by item. Choose one of: {', '.join(cls.summed)}."
            )
        return cls.summed[metric]

    @classmethod
    def signatures(cls) -> dict[str, str]:
        """How those metrics are computed that have several definitions."""
        return {}
