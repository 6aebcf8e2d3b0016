"""Translation: a text to a text, learned from any file of pairs.

BLEU and chrF are computed by sacrebleu without regard to case, from 0 to 100; CER is the edits of
characters over all characters of the references, WER those of words, both fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.core.errors import RegardError
from regard.data.readers.pairs import PairSource
from regard.tasks.metrics.edit_distance import (
    character_edits,
    character_error_rate,
    character_rates,
    mean_character_error_rate,
    text_word_error_rate,
    word_edits,
)
from regard.tasks.metrics.metric import SummedMetric, bleu_from_sums, chrf_from_sums, fraction
from regard.tasks.metrics.translation import bleu, bleu_counts, chrf, chrf_counts
from regard.tasks.seq2seq.corpus import PairOptions, source_of
from regard.tasks.seq2seq.task import PairTask


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(PairOptions):
    """As `PairOptions`; there is no embedded corpus, so `pairs` must be given."""


def _to_first(
    statistics: Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]],
) -> Callable[[Sequence[str], Sequence[Sequence[str]]], Sequence[Sequence[float]]]:
    """The statistics against the first answer, which is the only one here."""
    return lambda predicted, answers: statistics(predicted, [choices[0] for choices in answers])


class Translate(PairTask):
    """The score that decides is BLEU, unless another is asked for."""

    options_class = TranslateOptions
    metrics: ClassVar[dict[str, bool]] = {
        "bleu": False,
        "chrf": False,
        "cer": True,
        "mean_cer": True,
        "wer": True,
        "loss": True,
    }
    summed: ClassVar[dict[str, SummedMetric]] = {
        "bleu": SummedMetric(_to_first(bleu_counts), bleu_from_sums),
        "chrf": SummedMetric(_to_first(chrf_counts), chrf_from_sums),
        "cer": SummedMetric(_to_first(character_edits), fraction),
        "mean_cer": SummedMetric(_to_first(character_rates), fraction),
        "wer": SummedMetric(_to_first(word_edits), fraction),
    }
    groups_answers = False

    @classmethod
    def training_pairs(cls, options: PairOptions) -> PairSource:
        if options.pairs is None:
            raise RegardError(
                "The task 'translate' has no data of its own. Name a file of pairs: --pairs my.tsv, "
                "or two files with a text a line: --pairs train.de,train.en."
            )
        return source_of(options, options.pairs)

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        references = [choices[0] for choices in answers]
        return {
            "bleu": bleu(predicted, references).score,
            "chrf": chrf(predicted, references).score,
            "cer": character_error_rate(predicted, references),
            "mean_cer": mean_character_error_rate(predicted, references),
            "wer": text_word_error_rate(predicted, references),
        }

    @classmethod
    def signatures(cls) -> dict[str, str]:
        # A signature does not depend on the texts.
        return {"bleu": bleu(["a"], ["a"]).signature, "chrf": chrf(["a"], ["a"]).signature}
