"""Translation: a text to a text, learned from any file of pairs.

BLEU and chrF are computed by sacrebleu without regard to case, from 0 to 100; CER is the edits of
characters over all characters of the references, WER those of words, both fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.core.errors import RegardError
from regard.data.pair_rows import PairSource
from regard.tasks.edit_rates import (
    character_error_rate,
    mean_character_error_rate,
    text_word_error_rate,
)
from regard.tasks.pair_corpus import source_of
from regard.tasks.pair_options import PairOptions
from regard.tasks.pair_task import PairTask
from regard.tasks.text_scores import bleu, chrf


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(PairOptions):
    """As `PairOptions`; there is no embedded corpus, so `pairs` must be given."""


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
