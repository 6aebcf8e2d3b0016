"""How long work really takes here, and how much memory."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from regard.core.malloc import return_freed_memory
from regard.core.records.cost import CostRow
from regard.costs.trace import Run, Workload

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
# What resets the peak in the kernel's book of this process.
RESET_PEAK = "5"


def measured_seconds(workload: Workload, *, at_least: float = 0.04, rounds: int = 5) -> float:
    """The shortest time of one run, as a prediction is of an undisturbed machine."""
    return quickest_seconds(_ready(workload), at_least=at_least, rounds=rounds)


def quickest_seconds(run: Run, *, rounds: int = 5, at_least: float = 0.001) -> float:
    """The shortest time of one call, after one to warm up: what it takes undisturbed.

    A round takes `at_least` so many seconds: short work is called many times in it.
    """
    run()
    began = time.perf_counter()
    run()
    quickest = time.perf_counter() - began
    repeats = max(1, round(at_least / max(quickest, 1e-7)))
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(repeats):
            run()
        quickest = min(quickest, (time.perf_counter() - began) / repeats)
    return quickest


def measured_peak(workload: Workload) -> int | None:
    """Bytes by which this process grew at the peak of one run; None where the system keeps no such book.

    Memory that was freed before is given back first, and must not be kept (`keep_freed_memory`), or it
    would serve the run unseen.
    """
    if not CLEAR.exists():
        return None
    run = _ready(workload)
    run()  # what is allocated once for good: threads, kernels
    _give_back()
    CLEAR.write_text(RESET_PEAK)
    before = _book("VmRSS")
    run()
    return max(0, _book("VmHWM") - before)


def _ready(workload: Workload) -> Run:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return workload.prepare()


def _give_back() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return  # another C library; the figure is then the smaller for it


def _book(entry: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(entry))
    return int(line.split()[1]) * 1024


# Peak memory of work, measured in a process of its own.
#
# This process keeps what it frees, which hides what a run takes; the child returns it at once.
# Should the system lack memory, it is the child that is killed: that is told, and another child
# goes on with the rest.


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


# Rows of a cost report with what real runs took put beside the prediction.


LONG_RUN = 1.0  # seconds; such runs are not repeated often


def measured_rows(
    rows: Sequence[CostRow],
    *,
    recipes: Mapping[str, Callable[[], Workload]],
    free_bytes: int,
    begin: Callable[[], None],
    tell: Callable[[str], None],
) -> list[CostRow]:
    """Each row with its measured time and memory; one that needs more memory than there is says so."""
    measured = []
    for row in rows:
        if row.peak_bytes > free_bytes:
            measured.append(_remarked(row, _too_large(row, free_bytes)))
            continue
        tell(f"the time of {row.name}")
        rounds = 5 if (row.seconds or 0.0) < LONG_RUN else 1
        seconds = measured_seconds(recipes[row.name](), rounds=rounds)
        measured.append(replace(row, measured_seconds=seconds))
    ran = [place for place, row in enumerate(measured) if row.measured_seconds is not None]
    tell("memory")
    peaks = peaks_in_child([recipes[measured[place].name] for place in ran], begin=begin)
    for place, peak in zip(ran, peaks, strict=True):
        row = measured[place]
        if isinstance(peak, str):
            measured[place] = _remarked(row, f"memory was not measured: {peak}")
        else:
            measured[place] = replace(row, measured_bytes=peak)
    return measured


def _remarked(row: CostRow, remark: str) -> CostRow:
    return replace(row, note="; ".join(filter(None, [row.note, remark])))


def _too_large(row: CostRow, free: int) -> str:
    return (
        f"not run: it takes {row.peak_bytes / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; "
        "choose a smaller --length or --batch"
    )
