"""Peak memory of work, measured in a process of its own.

This process keeps what it frees, which hides what a run takes; the child returns it at once. Should the
system lack memory, it is the child that is killed: that is told, and another child goes on with the rest.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from regard.core.allocator import return_freed_memory
from regard.costs.measurement import measured_peak
from regard.costs.workload import Workload

OOM_SCORE = Path("/proc/self/oom_score_adj")
FIRST_TO_BE_KILLED = "1000"


def peaks_in_child(
    recipes: Iterable[Callable[[], Workload]], *, begin: Callable[[], None] | None = None
) -> Iterator[int | str | None]:
    """Bytes for each recipe, or None where the system keeps no book, or in words why there are none.

    Recipes and `begin`, which the child calls first, are pickled: functions of modules, or partials.
    """
    child: _Child | None = None
    try:
        for recipe in recipes:
            child = child or _Child(begin)
            answer = child.ask(recipe)
            if not child.process.is_alive():
                child = None
            yield answer
    finally:
        if child is not None:
            child.stop()


class _Child:
    def __init__(self, begin: Callable[[], None] | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, begin, torch.get_num_threads()), daemon=True
        )
        self.process.start()
        theirs.close()  # or the end of the child would not be heard

    def ask(self, recipe: Callable[[], Workload]) -> int | str | None:
        try:
            self.connection.send(recipe)
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            if code == -9:
                return "killed, most likely for lack of memory"
            return f"its process ended with code {code}"

    def stop(self) -> None:
        self.connection.close()
        self.process.join()


def _serve(
    connection: Connection[Any, Any], begin: Callable[[], None] | None, threads: int
) -> None:
    if OOM_SCORE.exists():
        OOM_SCORE.write_text(FIRST_TO_BE_KILLED)
    torch.set_num_threads(threads)
    return_freed_memory()
    if begin is not None:
        begin()
    while True:
        try:
            recipe = connection.recv()
        except EOFError:
            return
        try:
            answer: int | str | None = measured_peak(recipe())
        except (MemoryError, RuntimeError) as error:
            # Torch's word for a refused allocation is a RuntimeError.
            answer = f"failed: {str(error).splitlines()[0]}"
        connection.send(answer)
