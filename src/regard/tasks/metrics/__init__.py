"""Metrics by name: accuracy, F1, edit distances, similarities, BLEU and chrF, errors of numbers, losses.

The table holds strings, so listing the metrics imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from regard.core.exports import lazy_exports
from regard.core.registry import Registry

if TYPE_CHECKING:
    from regard.tasks.metrics.classification import (
        AUC as AUC,
        Accuracy as Accuracy,
        BalancedAccuracy as BalancedAccuracy,
        Calibration as Calibration,
        CalibrationError as CalibrationError,
        ConfusionMatrix as ConfusionMatrix,
        HopOverlap as HopOverlap,
        MacroF1 as MacroF1,
    )
    from regard.tasks.metrics.edit_distance import (
        CharacterErrorRate as CharacterErrorRate,
        ExactMatch as ExactMatch,
        ExactMatchError as ExactMatchError,
        MeanCharacterErrorRate as MeanCharacterErrorRate,
        PhoneErrorRate as PhoneErrorRate,
        WordErrorRate as WordErrorRate,
    )
    from regard.tasks.metrics.language_model import (
        BitsPerCharacter as BitsPerCharacter,
        MaskedAccuracy as MaskedAccuracy,
        NextSentenceAccuracy as NextSentenceAccuracy,
        Perplexity as Perplexity,
    )
    from regard.tasks.metrics.metric import (
        Loss as Loss,
        Metric as Metric,
        ModelMetric as ModelMetric,
        ProbabilityMetric as ProbabilityMetric,
        RatioMetric as RatioMetric,
    )
    from regard.tasks.metrics.regression import MAE as MAE, RMSE as RMSE, PearsonR as PearsonR
    from regard.tasks.metrics.similarity import (
        CosineSimilarity as CosineSimilarity,
        DamerauLevenshteinSimilarity as DamerauLevenshteinSimilarity,
        JaccardSimilarity as JaccardSimilarity,
    )
    from regard.tasks.metrics.translation import BLEU as BLEU, ChrF as ChrF


class Entry(NamedTuple):
    """Module and class of a metric."""

    module: str
    class_name: str
    summary: str


METRICS: dict[str, Entry] = {
    "exact_match": Entry("edit_distance", "ExactMatch", "predictions that are a reference"),
    "exact_match_error": Entry(
        "edit_distance", "ExactMatchError", "predictions that are no reference; in G2P called WER"
    ),
    "per": Entry("edit_distance", "PhoneErrorRate", "phone edits over phones"),
    "cer": Entry("edit_distance", "CharacterErrorRate", "character edits over characters"),
    "mean_cer": Entry("edit_distance", "MeanCharacterErrorRate", "mean CER of items"),
    "wer": Entry("edit_distance", "WordErrorRate", "word edits over words"),
    "jaccard_similarity": Entry(
        "similarity", "JaccardSimilarity", "shared characters over those in either text"
    ),
    "cosine_similarity": Entry(
        "similarity", "CosineSimilarity", "shared characters over the mean length (Ochiai)"
    ),
    "damerau_levenshtein_similarity": Entry(
        "similarity",
        "DamerauLevenshteinSimilarity",
        "1 − edits, with swaps, over the longer length",
    ),
    "bleu": Entry("translation", "BLEU", "BLEU-4 by sacrebleu"),
    "chrf": Entry("translation", "ChrF", "chrF2 by sacrebleu"),
    "accuracy": Entry("classification", "Accuracy", "correct labels"),
    "balanced_accuracy": Entry("classification", "BalancedAccuracy", "mean recall over labels"),
    "auc": Entry("classification", "AUC", "area under the ROC curve"),
    "calibration_error": Entry(
        "classification", "CalibrationError", "distance between confidence and accuracy"
    ),
    "macro_f1": Entry("classification", "MacroF1", "mean F1 over labels"),
    "hop_overlap": Entry("classification", "HopOverlap", "overlap of attention hops"),
    "bits_per_character": Entry("language_model", "BitsPerCharacter", "bits per character"),
    "masked_accuracy": Entry("language_model", "MaskedAccuracy", "masked tokens predicted"),
    "next_sentence_accuracy": Entry(
        "language_model", "NextSentenceAccuracy", "sentence pairs classified correctly"
    ),
    "perplexity": Entry("language_model", "Perplexity", "exponential of the loss per token"),
    "rmse": Entry("regression", "RMSE", "root mean squared error"),
    "mae": Entry("regression", "MAE", "mean absolute error"),
    "pearson_r": Entry("regression", "PearsonR", "correlation with the references"),
    "loss": Entry("metric", "Loss", "mean loss per prediction"),
}


def _is_metric(kind: type) -> bool:
    from regard.tasks.metrics.metric import Metric

    return issubclass(kind, Metric)


REGISTRY: Registry[Metric] = Registry("metric", METRICS, __name__, _is_metric, "name")


def metric_class(name: str) -> type[Metric]:
    """The class of a built-in metric or a plug-in, by name."""
    return REGISTRY.load(name)


__all__, __getattr__, __dir__ = lazy_exports(__name__)
__all__ += ["METRICS", "REGISTRY", "metric_class"]
