"""The tasks: data, loss and metrics, looked up by name.

The table holds strings, so listing the tasks does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from regard.core.exports import lazy_exports
from regard.core.registry import Registry
from regard.data.datasets import DATASETS

if TYPE_CHECKING:
    from regard.tasks.audio_classification import AudioClassification as AudioClassification
    from regard.tasks.classification.deletion import (
        deletion_curve as deletion_curve,
        mean_deletion as mean_deletion,
    )
    from regard.tasks.classification.leave_one_out import leave_one_out as leave_one_out
    from regard.tasks.classification.task import (
        Classification as Classification,
        Classify as Classify,
        ClassifyOptions as ClassifyOptions,
        TextOptions as TextOptions,
    )
    from regard.tasks.closed_book_qa import ClosedBookQA as ClosedBookQA
    from regard.tasks.image_classification import ImageClassification as ImageClassification
    from regard.tasks.language_model import (
        LanguageModelling as LanguageModelling,
        LMOptions as LMOptions,
    )
    from regard.tasks.masked_lm import MaskedLM as MaskedLM, MaskedLMOptions as MaskedLMOptions
    from regard.tasks.pronounce import Pronounce as Pronounce
    from regard.tasks.regression import Regression as Regression
    from regard.tasks.sequence import (
        SequenceOptions as SequenceOptions,
        SequenceTask as SequenceTask,
        Tokenizer as Tokenizer,
    )
    from regard.tasks.speech_recognition import SpeechRecognition as SpeechRecognition
    from regard.tasks.task import (
        EvalResult as EvalResult,
        FileOptions as FileOptions,
        Task as Task,
        TaskOptions as TaskOptions,
    )
    from regard.tasks.translate import Translate as Translate


class Entry(NamedTuple):
    """Module and class of a task, whether its models read pairs or single texts, and facts of the class.

    The kinds of input and target, `is_generative` and the metrics are those of the class, for listing
    tasks without torch.
    """

    module: str
    class_name: str
    summary: str
    metrics: tuple[str, ...]
    inputs: Literal["pairs", "texts"] = "pairs"
    target_kind: str = "sequence"
    input_kind: str = "tokens"
    is_generative: bool = False


_EXACT = ("exact_match", "loss")
_CLASS = ("accuracy", "macro_f1", "loss", "hop_overlap")

TASKS: dict[str, Entry] = {
    "pronounce": Entry(
        "pronounce",
        "Pronounce",
        "grapheme-to-phoneme conversion (G2P)",
        ("exact_match_error", "per", "loss"),
    ),
    "translate": Entry(
        "translate",
        "Translate",
        "translation, transliteration, inflection: from any file of pairs",
        ("bleu", "chrf", "cer", "mean_cer", "wer", "exact_match", "loss"),
    ),
    "lm": Entry(
        "language_model",
        "LanguageModelling",
        "language modelling: next tokens, or corrupted spans",
        ("bits_per_character", "perplexity", "loss"),
        is_generative=True,
    ),
    "closed_book_qa": Entry(
        "closed_book_qa",
        "ClosedBookQA",
        "closed-book question answering, from memorised text",
        _EXACT,
    ),
    "masked_lm": Entry(
        "masked_lm",
        "MaskedLM",
        "masked language modelling and next-sentence prediction",
        ("masked_accuracy", "next_sentence_accuracy", "perplexity", "loss"),
        "texts",
        "positions",
    ),
    "classify": Entry(
        "classification.task", "Classify", "text classification", _CLASS, "texts", "class"
    ),
    "audio_classification": Entry(
        "audio_classification",
        "AudioClassification",
        "classification of sequences of frames",
        _CLASS,
        "texts",
        "class",
        "frames",
    ),
    "image_classification": Entry(
        "image_classification",
        "ImageClassification",
        "classification of images",
        (
            "accuracy",
            "balanced_accuracy",
            "auc",
            "macro_f1",
            "calibration_error",
            "loss",
            "hop_overlap",
        ),
        "texts",
        "class",
        "images",
    ),
    "speech_recognition": Entry(
        "speech_recognition",
        "SpeechRecognition",
        "speech recognition: recordings to characters",
        (
            "cer",
            "wer",
            "jaccard_similarity",
            "cosine_similarity",
            "damerau_levenshtein_similarity",
            "exact_match",
            "loss",
        ),
        input_kind="frames",
    ),
    "regression": Entry(
        "regression",
        "Regression",
        "a number from a text",
        ("rmse", "mae", "pearson_r", "loss"),
        "texts",
        "value",
    ),
    # Synthetic tasks, which need no file.
    "copy": Entry("synthetic", "Copy", "synthetic: copy a string", _EXACT),
    "reverse": Entry("synthetic", "Reverse", "synthetic: reverse a string", _EXACT),
    **{
        name: Entry("synthetic", class_name, f"synthetic: {summary}", _CLASS, "texts", "class")
        for name, class_name, summary in (
            ("associative_recall", "AssociativeRecallTask", "the value of a key seen before"),
            ("parity", "ParityTask", "parity of a bit string"),
            ("aa_star", "AAStarTask", "membership in (aa)*"),
            ("brackets", "BracketsTask", "balanced brackets (Dyck)"),
            ("listops", "ListOpsTask", "nested list operations"),
        )
    },
}


# Names that a data option may have in place of a file.
EMBEDDED_DATASETS = tuple(DATASETS)


def _is_task(kind: type) -> bool:
    from regard.tasks.task import Task

    return issubclass(kind, Task)


REGISTRY: Registry[Task] = Registry("task", TASKS, __name__, _is_task)


def task_class(name: str) -> type[Task]:
    """The class of a built-in task or a plug-in, by name."""
    return REGISTRY.load(name)


__all__, __getattr__, __dir__ = lazy_exports(__name__)
__all__ += ["EMBEDDED_DATASETS", "REGISTRY", "TASKS", "task_class"]
