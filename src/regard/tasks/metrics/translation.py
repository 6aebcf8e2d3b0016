"""BLEU and chrF of a corpus, computed by sacrebleu, each with the signature that makes it comparable.

Both compare whole texts as people write them: predictions and references must not be cut into tokens
before, since the score does its own cutting (13a for BLEU; chrF counts characters, spaces left out).
Both are functions of counts that add up over items (`summed_scores.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from regard.tasks.metrics.edit_distance import require_pairs

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF


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
    require_pairs(predicted, references)
    metric = _bleu(lowercase=lowercase)
    score = metric.corpus_score(list(predicted), [list(references)]).score
    return TextScore(_without_noise(score), str(metric.get_signature()))


def chrf(
    predicted: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> TextScore:
    """The chrF2 score over the corpus (Popović 2015): F-score of character n-grams, n from 1 to 6.

    >>> chrf(["a small cat"], ["A small cat"]).score
    100.0
    """
    require_pairs(predicted, references)
    metric = _chrf(lowercase=lowercase)
    score = metric.corpus_score(list(predicted), [list(references)]).score
    return TextScore(_without_noise(score), str(metric.get_signature()))


def bleu_counts(
    predicted: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> list[list[float]]:
    """The ten counts of each item that BLEU adds up."""
    return _counts(_bleu(lowercase=lowercase), predicted, references)


def chrf_counts(
    predicted: Sequence[str], references: Sequence[str], *, lowercase: bool = True
) -> list[list[float]]:
    """The eighteen counts of each item that chrF adds up."""
    return _counts(_chrf(lowercase=lowercase), predicted, references)


def _bleu(*, lowercase: bool) -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    # `force` only keeps the library from writing a warning into a progress display.
    return BLEU(lowercase=lowercase, tokenize="13a", force=True)


def _chrf(*, lowercase: bool) -> CHRF:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(lowercase=lowercase)


def _counts(
    metric: BLEU | CHRF, predicted: Sequence[str], references: Sequence[str]
) -> list[list[float]]:
    require_pairs(predicted, references)
    # The library's own path from texts to counts; it has no public name for it.
    rows = metric._extract_corpus_statistics(list(predicted), [list(references)])
    return [[float(count) for count in row] for row in rows]


def _without_noise(score: float) -> float:
    """The score with its last bits rounded off: a perfect one would else read 100.00000000000004."""
    return round(score, 10)
