"""Corpus metrics: scores computed from statistics summed over items, for many bootstrap samples at once.

A corpus score is not the mean of item scores: an error rate is all edits over all lengths
(`edit_distance.py`), and BLEU and chrF sum their n-gram counts over the corpus (`translation.py`). The
statistics of an item are in the last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.core.errors import RegardError
from regard.core.registry import lookup

CHARACTER_ORDERS = 6
RECALL_WEIGHT = 4  # β² of chrF2


class CorpusMetric(NamedTuple):
    """A metric as a function of sums over items.

    `statistics(predictions, references)` are the sufficient statistics of each item; `score` maps their
    sums to the metric.
    """

    statistics: Callable[[Sequence[str], Sequence[Sequence[str]]], Sequence[Sequence[float]]]
    score: Callable[[Float[np.ndarray, "*samples k"]], Float[np.ndarray, "*samples"]]


def fraction(sums: Float[np.ndarray, "*samples 2"]) -> Float[np.ndarray, "*samples"]:
    """The first sum over the second, such as edits over lengths; NaN if the second is 0.

    >>> fraction(np.array([3.0, 12.0])).item()
    0.25
    """
    part, whole = sums[..., 0], sums[..., 1]
    return np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)


def percentage(sums: Float[np.ndarray, "*samples 2"]) -> Float[np.ndarray, "*samples"]:
    """The first sum in percent of the second.

    >>> percentage(np.array([3.0, 12.0])).item()
    25.0
    """
    return np.asarray(100.0 * fraction(sums))


def bleu_from_sums(sums: Float[np.ndarray, "*samples 10"]) -> Float[np.ndarray, "*samples"]:
    """BLEU-4 in percent with exponential smoothing, as sacrebleu computes it.

    The sums are, in sacrebleu's order: prediction length, reference length, matching n-grams of order
    1 to 4, predicted n-grams of order 1 to 4.
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

    The sums are, for each order 1 to 6: n-grams of the prediction, of the reference, and matches. An
    order without n-grams on either side is ignored.
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


class MetricTable:
    """The metrics of a task, by name."""

    # metric → whether lower is better
    metrics: ClassVar[dict[str, bool]]
    # those that are a function of sums over items
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {}

    @classmethod
    def item_statistics(
        cls, metric: str, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[np.ndarray, "items k"]:
        """The statistics of each item, whose sums `corpus_metric(metric).score` maps to the metric."""
        statistics = cls.corpus_metric(metric).statistics(predictions, references)
        return np.array(statistics, dtype=np.float64)

    @classmethod
    def corpus_metric(cls, metric: str) -> CorpusMetric:
        """The metric as a function of sums over items; raises if it is not one."""
        lookup("metric", metric, cls.metrics)
        if metric not in cls.corpus_metrics:
            raise RegardError(
                f"The metric '{metric}' has no per-item statistics, since it is not a function of the "
                f"predictions. Choose one of: {', '.join(cls.corpus_metrics)}."
            )
        return cls.corpus_metrics[metric]

    @classmethod
    def scores(
        cls, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Every metric that is a function of the predictions."""
        sums = {
            name: cls.item_statistics(name, predictions, references).sum(axis=0)
            for name in cls.corpus_metrics
        }
        return {name: cls.corpus_metrics[name].score(of).item() for name, of in sums.items()}

    @classmethod
    def signatures(cls) -> dict[str, str]:
        """Signatures of the metrics that have several definitions."""
        return {}
