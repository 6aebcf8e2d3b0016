"""Pronunciation: the letters of a word to its phones (grapheme to phoneme).

    cat  →  K AE T

The embedded data is the CMU Pronouncing Dictionary. A word may have several right pronunciations, and
any of them counts: WER is the share of words that match none, PER the edits to the nearest, both in
percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.data.datasets.cmudict import embedded_dictionary
from regard.data.readers.pairs import PairSource
from regard.tasks.metrics.edit_distance import (
    nearest_edits,
    phone_error_rate,
    word_error_rate,
    wrong_items,
)
from regard.tasks.metrics.metric import SummedMetric, percentage
from regard.tasks.seq2seq.corpus import PairOptions, source_of
from regard.tasks.seq2seq.task import PairTask


@dataclass(frozen=True, kw_only=True)
class PronounceOptions(PairOptions):
    """As `PairOptions`; without `pairs` the embedded dictionary is learned from."""

    source_tokens: str = "characters"
    target_tokens: str = "words"
    lowercase: str = "source"
    max_length: int = 64


class Pronounce(PairTask):
    """The score that decides is the word error rate."""

    options_class = PronounceOptions
    metrics: ClassVar[dict[str, bool]] = {"wer": True, "per": True, "loss": True}
    summed: ClassVar[dict[str, SummedMetric]] = {
        "wer": SummedMetric(lambda *texts: wrong_items(*_phones(*texts)), percentage),
        "per": SummedMetric(lambda *texts: nearest_edits(*_phones(*texts)), percentage),
    }
    groups_answers = True
    default_format = "dictionary"

    @classmethod
    def training_pairs(cls, options: PairOptions) -> PairSource:
        if options.pairs is None:
            return embedded_dictionary()
        return source_of(options, options.pairs, default_format=cls.default_format)

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        phones = _phones(predicted, answers)
        return {"wer": word_error_rate(*phones), "per": phone_error_rate(*phones)}


def _phones(
    predicted: Sequence[str], answers: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[list[list[str]]]]:
    return (
        [text.split() for text in predicted],
        [[answer.split() for answer in choices] for choices in answers],
    )
