"""The tasks, by name: which data, what loss, what score.

The table holds strings, so listing the tasks does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from regard.core.names import look_up

if TYPE_CHECKING:
    from regard.tasks.pair_task import PairTask


class Entry(NamedTuple):
    """Where a task lives, and what it is."""

    module: str
    class_name: str
    summary: str


TASKS: dict[str, Entry] = {
    "pronounce": Entry("pronounce", "Pronounce", "letters of a word to its phones"),
    "translate": Entry(
        "translate", "Translate", "a sentence to a sentence, from any file of pairs"
    ),
}


def task_class(name: str) -> type[PairTask]:
    """The class of a task, imported when it is asked for."""
    entry = look_up("task", name, TASKS)
    found: type[PairTask] = getattr(
        importlib.import_module(f"regard.tasks.{entry.module}"), entry.class_name
    )
    return found
