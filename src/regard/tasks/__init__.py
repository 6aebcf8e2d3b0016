"""The tasks, by name: which data, what loss, what score.

The table holds strings, so listing the tasks does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Literal, NamedTuple

from regard.core.registry import look_up

if TYPE_CHECKING:
    from regard.tasks.task import RunTask


class Entry(NamedTuple):
    """Where a task lives, and what it is; its models read pairs or single texts, as `reads` says."""

    module: str
    class_name: str
    summary: str
    reads: Literal["pairs", "texts"] = "pairs"


TASKS: dict[str, Entry] = {
    "pronounce": Entry("seq2seq.pronounce", "Pronounce", "letters of a word to its phones"),
    "translate": Entry(
        "seq2seq.translate", "Translate", "a sentence to a sentence, from any file of pairs"
    ),
    "lm": Entry(
        "language_model.task", "LanguageModelling", "a text goes on: next tokens, or hidden spans"
    ),
    "recall": Entry(
        "seq2seq.closed_book_qa", "Recall", "a question to its answer, out of what was read before"
    ),
    "encoder": Entry(
        "masked_lm",
        "Encoder",
        "masked tokens of a text, and whether two parts belong together",
        "texts",
    ),
    "classify": Entry("classification.task", "Classify", "a text to its label", "texts"),
    # Drawn strings, which need no file.
    "copy": Entry("synthetic", "Copy", "drawn letters to themselves"),
    "reverse": Entry("synthetic", "Reverse", "drawn letters to themselves backwards"),
    "associate": Entry(
        "synthetic", "AssociateTask", "drawn pairs, then a key: which value it had", "texts"
    ),
    "parity": Entry("synthetic", "ParityTask", "drawn bits: even or odd", "texts"),
    "even_as": Entry(
        "synthetic", "EvenAsTask", "drawn letters: an even number of a's, nothing else", "texts"
    ),
    "brackets": Entry("synthetic", "BracketsTask", "drawn brackets: nested right or not", "texts"),
    "listops": Entry(
        "synthetic", "ListOpsTask", "drawn nested lists of digits: their value", "texts"
    ),
}


def task_class(name: str) -> type[RunTask]:
    """The class of a task, imported when it is asked for."""
    entry = look_up("task", name, TASKS)
    found: type[RunTask] = getattr(
        importlib.import_module(f"regard.tasks.{entry.module}"), entry.class_name
    )
    return found
