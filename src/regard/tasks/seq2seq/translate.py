"""Translation, or any other text-to-text task, trained on a file of pairs.

BLEU and chrF are case-insensitive, by sacrebleu, from 0 to 100; CER and WER are edits over all characters
or words of the references, as fractions.
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
from regard.tasks.metrics.metric import CorpusMetric, bleu_from_sums, chrf_from_sums, fraction
from regard.tasks.metrics.translation import bleu, bleu_counts, chrf, chrf_counts
from regard.tasks.seq2seq.corpus import Seq2SeqOptions, pair_source
from regard.tasks.seq2seq.task import Seq2SeqTask


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(Seq2SeqOptions):
    """As `Seq2SeqOptions`; `train_file` is required, since there is no embedded corpus."""


def _first_reference(
    statistics: Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]],
) -> Callable[[Sequence[str], Sequence[Sequence[str]]], Sequence[Sequence[float]]]:
    """The statistics against the first, and here only, reference."""
    return lambda predictions, references: statistics(
        predictions, [choices[0] for choices in references]
    )


class Translate(Seq2SeqTask):
    """Translation; the default metric is BLEU."""

    options_class = TranslateOptions
    metrics: ClassVar[dict[str, bool]] = {
        "bleu": False,
        "chrf": False,
        "cer": True,
        "mean_cer": True,
        "wer": True,
        "loss": True,
    }
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "bleu": CorpusMetric(_first_reference(bleu_counts), bleu_from_sums),
        "chrf": CorpusMetric(_first_reference(chrf_counts), chrf_from_sums),
        "cer": CorpusMetric(_first_reference(character_edits), fraction),
        "mean_cer": CorpusMetric(_first_reference(character_rates), fraction),
        "wer": CorpusMetric(_first_reference(word_edits), fraction),
    }
    groups_references = False

    @classmethod
    def train_source(cls, options: Seq2SeqOptions) -> PairSource:
        if options.train_file is None:
            raise RegardError(
                "The task 'translate' has no embedded data. Name a file of pairs: --train-file my.tsv, "
                "or two parallel files: --train-file train.de,train.en."
            )
        return pair_source(options, options.train_file)

    @classmethod
    def scores(
        cls, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        first = [choices[0] for choices in references]
        return {
            "bleu": bleu(predictions, first).score,
            "chrf": chrf(predictions, first).score,
            "cer": character_error_rate(predictions, first),
            "mean_cer": mean_character_error_rate(predictions, first),
            "wer": text_word_error_rate(predictions, first),
        }

    @classmethod
    def signatures(cls) -> dict[str, str]:
        # A signature does not depend on the texts.
        return {"bleu": bleu(["a"], ["a"]).signature, "chrf": chrf(["a"], ["a"]).signature}
