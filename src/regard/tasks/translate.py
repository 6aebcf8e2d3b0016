"""Translation, or any other text-to-text task, trained on a file of pairs.

BLEU and chrF are case-insensitive, by sacrebleu, from 0 to 100; CER and WER are edits over all characters
or words of the references, as fractions.
"""

from __future__ import annotations

from regard.tasks.metrics import (
    BLEU,
    CharacterErrorRate,
    ChrF,
    ExactMatch,
    Loss,
    MeanCharacterErrorRate,
    WordErrorRate,
)
from regard.tasks.sequence import SequenceTask


class Translate(SequenceTask):
    """Translation; the default metric is BLEU. There is no embedded corpus."""

    metrics = (
        BLEU(),
        ChrF(),
        CharacterErrorRate(),
        MeanCharacterErrorRate(),
        WordErrorRate(),
        ExactMatch(),
        Loss(),
    )
