"""Metrics: accuracy, F1, calibration, edit distances, BLEU and chrF, from per-item statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.tasks.metrics.classification import (
        Calibration as Calibration,
        ConfusionMatrix as ConfusionMatrix,
        macro_f1 as macro_f1,
        perplexity as perplexity,
    )
    from regard.tasks.metrics.edit_distance import (
        character_error_rate as character_error_rate,
        mean_character_error_rate as mean_character_error_rate,
        phone_error_rate as phone_error_rate,
        text_word_error_rate as text_word_error_rate,
        word_error_rate as word_error_rate,
    )
    from regard.tasks.metrics.metric import CorpusMetric as CorpusMetric
    from regard.tasks.metrics.translation import bleu as bleu, chrf as chrf

__all__, __getattr__, __dir__ = lazy_exports(__name__)
