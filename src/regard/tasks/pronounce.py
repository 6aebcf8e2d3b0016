"""Pronunciation: grapheme-to-phoneme conversion (G2P).

    cat  →  K AE T

The embedded data is the CMU Pronouncing Dictionary. A word may have several reference pronunciations: the
exact-match error, which G2P papers call WER, is the percentage of words that match none of them, PER the
edits to the nearest, in percent.
"""

from __future__ import annotations

from regard.core.options import PositiveInt
from regard.data.datasets.cmudict import cmudict_pairs
from regard.data.preprocessor import GroupedPairPreprocessor
from regard.tasks.metrics import ExactMatchError, Loss, PhoneErrorRate
from regard.tasks.sequence import SequenceOptions, SequenceTask, Tokenizer


class PronounceOptions(SequenceOptions):
    """As `SequenceOptions`; without `train_file`, the embedded dictionary."""

    source_tokens: Tokenizer = "characters"
    target_tokens: Tokenizer = "words"
    max_length: PositiveInt = 64


class Pronounce(SequenceTask):
    """Pronunciation; the default metric is the exact-match error."""

    options_class = PronounceOptions
    preprocessor_class = GroupedPairPreprocessor
    metrics = (ExactMatchError(), PhoneErrorRate(), Loss())
    datasets = {"cmudict": lambda _: cmudict_pairs()}  # noqa: RUF012
    default_format = "dictionary"
