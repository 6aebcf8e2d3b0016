"""Corpus BLEU and chrF from the counts of sacrebleu, each with its signature.

Predictions and references are detokenised texts: the metric tokenises them itself (13a for BLEU; chrF
counts characters without spaces), case-insensitively. Scores are from 0 to 100.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.tasks.metrics.metric import Metric, validate_choices

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

CHARACTER_ORDERS = 6
RECALL_WEIGHT = 4  # β² of chrF2


class CountMetric(Metric):
    """A metric whose statistics are the counts of sacrebleu."""

    @abstractmethod
    def sacre(self) -> SacreMetric:
        """The metric of sacrebleu."""

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[np.ndarray, "items k"]:
        validate_choices(references)
        # sacrebleu has no public function for the counts; None stands for a missing reference.
        streams = [list(stream) for stream in zip_longest(*references)]
        rows = self.sacre()._extract_corpus_statistics(list(predictions), streams)
        return np.array(rows, dtype=np.float64)

    @property
    def signature(self) -> str:
        metric = self.sacre()
        # A signature has the number of references of the last corpus.
        metric.corpus_score(["a"], [["a"]])
        return str(metric.get_signature())


class BLEU(CountMetric):
    """BLEU-4 over the corpus (Papineni et al. 2002), with exponential smoothing of empty counts.

    >>> BLEU()(["a small cat sat down"], [("A small cat sat down",)])
    100.0
    """

    name = "bleu"

    def sacre(self) -> SacreMetric:
        from sacrebleu.metrics import bleu

        # `force` silences a warning about tokenised input.
        return bleu.BLEU(lowercase=True, tokenize="13a", force=True)

    def score(self, sums: Float[np.ndarray, "*samples 10"]) -> Float[np.ndarray, "*samples"]:
        """As sacrebleu, from lengths of prediction and reference, matching and predicted n-grams."""
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


class ChrF(CountMetric):
    """The chrF2 score over the corpus (Popović 2015): F-score of character n-grams, n from 1 to 6.

    >>> ChrF()(["a small cat"], [("A small cat",)])
    100.0
    """

    name = "chrf"

    def sacre(self) -> SacreMetric:
        from sacrebleu.metrics.chrf import CHRF

        return CHRF(lowercase=True)

    def score(self, sums: Float[np.ndarray, "*samples 18"]) -> Float[np.ndarray, "*samples"]:
        """As sacrebleu, from n-grams of prediction and reference and matches of each order.

        An order without n-grams on either side is ignored.
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
