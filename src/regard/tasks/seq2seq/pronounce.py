"""Pronunciation: grapheme-to-phoneme conversion (G2P).

    cat  →  K AE T

The embedded data is the CMU Pronouncing Dictionary. A word may have several reference pronunciations: WER
is the percentage of words that match none of them, PER the edits to the nearest, in percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.data.datasets.cmudict import cmudict_pairs
from regard.data.readers.pairs import PairSource
from regard.tasks.metrics.edit_distance import (
    nearest_edits,
    phone_error_rate,
    sequence_errors,
    word_error_rate,
)
from regard.tasks.metrics.metric import CorpusMetric, percentage
from regard.tasks.seq2seq.corpus import Seq2SeqOptions, pair_source
from regard.tasks.seq2seq.task import Seq2SeqTask


@dataclass(frozen=True, kw_only=True)
class PronounceOptions(Seq2SeqOptions):
    """As `Seq2SeqOptions`; without `train_file`, the embedded dictionary."""

    source_tokens: str = "characters"
    target_tokens: str = "words"
    lowercase: str = "source"
    max_length: int = 64


class Pronounce(Seq2SeqTask):
    """Pronunciation; the default metric is the word error rate."""

    options_class = PronounceOptions
    metrics: ClassVar[dict[str, bool]] = {"wer": True, "per": True, "loss": True}
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "wer": CorpusMetric(lambda *texts: sequence_errors(*_phones(*texts)), percentage),
        "per": CorpusMetric(lambda *texts: nearest_edits(*_phones(*texts)), percentage),
    }
    groups_references = True
    default_format = "dictionary"

    @classmethod
    def train_source(cls, options: Seq2SeqOptions) -> PairSource:
        if options.train_file is None:
            return cmudict_pairs()
        return pair_source(options, options.train_file, default_format=cls.default_format)

    @classmethod
    def scores(
        cls, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        phones = _phones(predictions, references)
        return {"wer": word_error_rate(*phones), "per": phone_error_rate(*phones)}


def _phones(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[list[list[str]]]]:
    return (
        [text.split() for text in predictions],
        [[reference.split() for reference in choices] for choices in references],
    )
