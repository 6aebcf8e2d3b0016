"""Scores of a test set from statistics that were added up over its items, for many samples at once.

Statistics stand in the last axis. A score of sums is not a mean of the items' own scores: an error rate
is all edits over all lengths (`tasks/edit_rates.py`), and BLEU counts its n-grams over the whole corpus
(`tasks/text_scores.py`).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def percentage(sums: Float[np.ndarray, "*samples 2"]) -> Float[np.ndarray, "*samples"]:
    """The first sum in percent of the second: edits and lengths, or wrong items and ones.

    Of nothing it is not a number.

    >>> percentage(np.array([3.0, 12.0])).item()
    25.0
    """
    part, whole = sums[..., 0], sums[..., 1]
    share = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return np.asarray(100.0 * share)


def bleu(sums: Float[np.ndarray, "*samples 10"]) -> Float[np.ndarray, "*samples"]:
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
