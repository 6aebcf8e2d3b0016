"""BLEU and chrF of a corpus, computed by sacrebleu, each with the signature that makes it comparable.

Both compare whole texts as people write them: predictions and references must not be cut into tokens
before, since the score does its own cutting (13a for BLEU; chrF counts characters, spaces left out).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.tasks.edit_rates import require_pairs


class TextScore(NamedTuple):
    """A score from 0 to 100, higher is better, and the settings it was computed with."""

    score: float
    signature: str


def bleu(
    predicted: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> TextScore:
    """BLEU-4 over the corpus (Papineni et al. 2002), with exponential smoothing of empty counts.

    >>> bleu(["a small cat sat down"], ["A small cat sat down"]).score
    100.0
    """
    from sacrebleu.metrics.bleu import BLEU

    require_pairs(predicted, references)
    # `force` only keeps the library from writing a warning into a progress display.
    metric = BLEU(lowercase=lowercase, tokenize="13a", force=True)
    score = metric.corpus_score(list(predicted), [list(references)]).score
    return TextScore(_without_noise(score), str(metric.get_signature()))


def chrf(
    predicted: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> TextScore:
    """The chrF2 score over the corpus (Popović 2015): F-score of character n-grams, n from 1 to 6.

    >>> chrf(["a small cat"], ["A small cat"]).score
    100.0
    """
    from sacrebleu.metrics.chrf import CHRF

    require_pairs(predicted, references)
    metric = CHRF(lowercase=lowercase)
    score = metric.corpus_score(list(predicted), [list(references)]).score
    return TextScore(_without_noise(score), str(metric.get_signature()))


def _without_noise(score: float) -> float:
    """The score with its last bits rounded off: a perfect one would else read 100.00000000000004."""
    return round(score, 10)
