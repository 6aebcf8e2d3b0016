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
    from regard.tasks.task import (
        EvalResult as EvalResult,
        FileOptions as FileOptions,
        Task as Task,
        TaskOptions as TaskOptions,
    )
    from regard.tasks.translate import Translate as Translate


class Entry(NamedTuple):
    """Module and class of a task, and whether its models read pairs or single texts."""

    module: str
    class_name: str
    summary: str
    inputs: Literal["pairs", "texts"] = "pairs"


TASKS: dict[str, Entry] = {
    "pronounce": Entry("pronounce", "Pronounce", "grapheme-to-phoneme conversion"),
    "translate": Entry("translate", "Translate", "translation, from any file of pairs"),
    "lm": Entry(
        "language_model",
        "LanguageModelling",
        "language modelling: next tokens, or corrupted spans",
    ),
    "closed_book_qa": Entry(
        "closed_book_qa",
        "ClosedBookQA",
        "closed-book question answering, from memorised text",
    ),
    "masked_lm": Entry(
        "masked_lm", "MaskedLM", "masked language modelling and next-sentence prediction", "texts"
    ),
    "classify": Entry("classification.task", "Classify", "text classification", "texts"),
    "audio_classification": Entry(
        "audio_classification",
        "AudioClassification",
        "classification of sequences of frames",
        "texts",
    ),
    "regression": Entry("regression", "Regression", "a number from a text", "texts"),
    # Synthetic tasks, which need no file.
    "copy": Entry("synthetic", "Copy", "synthetic: copy a string"),
    "reverse": Entry("synthetic", "Reverse", "synthetic: reverse a string"),
    "associative_recall": Entry(
        "synthetic", "AssociativeRecallTask", "synthetic: the value of a key seen before", "texts"
    ),
    "parity": Entry("synthetic", "ParityTask", "synthetic: parity of a bit string", "texts"),
    "aa_star": Entry("synthetic", "AAStarTask", "synthetic: membership in (aa)*", "texts"),
    "brackets": Entry("synthetic", "BracketsTask", "synthetic: balanced brackets (Dyck)", "texts"),
    "listops": Entry("synthetic", "ListOpsTask", "synthetic: nested list operations", "texts"),
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
