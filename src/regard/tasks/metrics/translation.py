"""Corpus BLEU and chrF, computed by sacrebleu, each with its signature.

Predictions and references are detokenised texts: the metric tokenises them itself (13a for BLEU; chrF
counts characters without spaces). Both are functions of counts summed over items (`metric.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from regard.tasks.metrics.edit_distance import validate_pairs

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF


class TextScore(NamedTuple):
    """A score from 0 to 100, higher is better, and its sacrebleu signature."""

    score: float
    signature: str


def bleu(
    predictions: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> TextScore:
    """BLEU-4 over the corpus (Papineni et al. 2002), with exponential smoothing of empty counts.

    >>> bleu(["a small cat sat down"], ["A small cat sat down"]).score
    100.0
    """
    return _score(_bleu(lowercase=lowercase), predictions, references)


def chrf(
    predictions: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> TextScore:
    """The chrF2 score over the corpus (Popović 2015): F-score of character n-grams, n from 1 to 6.

    >>> chrf(["a small cat"], ["A small cat"]).score
    100.0
    """
    return _score(_chrf(lowercase=lowercase), predictions, references)


def bleu_counts(
    predictions: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> list[list[float]]:
    """Per item: the ten counts that BLEU sums."""
    return _counts(_bleu(lowercase=lowercase), predictions, references)


def chrf_counts(
    predictions: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> list[list[float]]:
    """Per item: the eighteen counts that chrF sums."""
    return _counts(_chrf(lowercase=lowercase), predictions, references)


def _bleu(*, lowercase: bool) -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    # `force` silences a warning about tokenised input.
    return BLEU(lowercase=lowercase, tokenize="13a", force=True)


def _chrf(*, lowercase: bool) -> CHRF:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(lowercase=lowercase)


def _counts(
    metric: BLEU | CHRF, predictions: Sequence[str], references: Sequence[str]
) -> list[list[float]]:
    validate_pairs(predictions, references)
    # sacrebleu has no public function for the counts.
    rows = metric._extract_corpus_statistics(list(predictions), [list(references)])
    return [[float(count) for count in row] for row in rows]


def _score(metric: BLEU | CHRF, predictions: Sequence[str], references: Sequence[str]) -> TextScore:
    validate_pairs(predictions, references)
    score = metric.corpus_score(list(predictions), [list(references)]).score
    # Rounded, since a perfect score would else be 100.00000000000004.
    return TextScore(round(score, 10), str(metric.get_signature()))
