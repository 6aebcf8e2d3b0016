"""The tasks: data, loss and metrics, looked up by name.

The table holds strings, so listing the tasks does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Literal, NamedTuple

from regard.core.exports import lazy_exports
from regard.core.registry import lookup

if TYPE_CHECKING:
    from regard.tasks.classification.corpus import ClassifyOptions as ClassifyOptions
    from regard.tasks.classification.deletion import (
        deletion_curve as deletion_curve,
        mean_deletion as mean_deletion,
    )
    from regard.tasks.classification.labels import ClassBalance as ClassBalance
    from regard.tasks.classification.leave_one_out import leave_one_out as leave_one_out
    from regard.tasks.classification.task import Classify as Classify
    from regard.tasks.language_model.corpus import LMOptions as LMOptions
    from regard.tasks.language_model.task import LanguageModelling as LanguageModelling
    from regard.tasks.masked_lm import MaskedLM as MaskedLM, MaskedLMOptions as MaskedLMOptions
    from regard.tasks.seq2seq.closed_book_qa import ClosedBookQA as ClosedBookQA
    from regard.tasks.seq2seq.corpus import Seq2SeqOptions as Seq2SeqOptions
    from regard.tasks.seq2seq.pronounce import Pronounce as Pronounce
    from regard.tasks.seq2seq.task import Seq2SeqTask as Seq2SeqTask
    from regard.tasks.seq2seq.translate import Translate as Translate
    from regard.tasks.task import EvalResult as EvalResult, Task as Task
    from regard.tasks.text_task import TextOptions as TextOptions, TextTask as TextTask


class Entry(NamedTuple):
    """Module and class of a task, and whether its models read pairs or single texts."""

    module: str
    class_name: str
    summary: str
    inputs: Literal["pairs", "texts"] = "pairs"


TASKS: dict[str, Entry] = {
    "pronounce": Entry("seq2seq.pronounce", "Pronounce", "grapheme-to-phoneme conversion"),
    "translate": Entry("seq2seq.translate", "Translate", "translation, from any file of pairs"),
    "lm": Entry(
        "language_model.task",
        "LanguageModelling",
        "language modelling: next tokens, or corrupted spans",
    ),
    "closed_book_qa": Entry(
        "seq2seq.closed_book_qa",
        "ClosedBookQA",
        "closed-book question answering, from memorised text",
    ),
    "masked_lm": Entry(
        "masked_lm", "MaskedLM", "masked language modelling and next-sentence prediction", "texts"
    ),
    "classify": Entry("classification.task", "Classify", "text classification", "texts"),
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


def task_class(name: str) -> type[Task]:
    """The class of a task, imported on first use."""
    entry = lookup("task", name, TASKS)
    found: type[Task] = getattr(
        importlib.import_module(f"regard.tasks.{entry.module}"), entry.class_name
    )
    return found


__all__, __getattr__, __dir__ = lazy_exports(__name__)
__all__ += ["TASKS", "task_class"]
