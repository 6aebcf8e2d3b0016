"""Measure time and peak memory of workloads.

Peak memory is measured in a child process that returns freed memory to the system. If memory runs
out, the child is killed (OOM) and another continues.
"""

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
# Written to clear_refs, resets the peak resident set size (VmHWM).
RESET_PEAK = "5"


def measured_seconds(workload: Workload, *, min_seconds: float = 0.04, rounds: int = 5) -> float:
    """The shortest time of one run."""
    return shortest_seconds(_prepare(workload), min_seconds=min_seconds, rounds=rounds)


def shortest_seconds(run: Run, *, rounds: int = 5, min_seconds: float = 0.001) -> float:
    """The shortest time of one call, after a warm-up call.

    A round lasts at least `min_seconds`: short calls are repeated.
    """
    run()
    start = time.perf_counter()
    run()
    shortest = time.perf_counter() - start
    repeats = max(1, round(min_seconds / max(shortest, 1e-7)))
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        shortest = min(shortest, (time.perf_counter() - start) / repeats)
    return shortest


def measured_peak(workload: Workload) -> int | None:
    """Growth of this process's resident memory at the peak of one run; None without /proc.

    Freed memory is trimmed first. It must not be cached by the allocator (`keep_freed_memory`), or the
    run would reuse it unseen.
    """
    if not CLEAR.exists():
        return None
    run = _prepare(workload)
    run()  # warm-up: threads and kernels are allocated once
    _trim_heap()
    CLEAR.write_text(RESET_PEAK)
    before = _memory_status("VmRSS")
    run()
    return max(0, _memory_status("VmHWM") - before)


def _prepare(workload: Workload) -> Run:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return workload.prepare()


def _trim_heap() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return  # not glibc: the measured peak is then too small


def _memory_status(entry: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(entry))
    return int(line.split()[1]) * 1024


OOM_SCORE = Path("/proc/self/oom_score_adj")
MAX_OOM_SCORE = "1000"  # killed first when memory runs out


def peaks_in_child(
    factories: Iterable[Callable[[], Workload]], *, setup: Callable[[], object] | None = None
) -> Iterator[int | str | None]:
    """Peak bytes of each workload, None without /proc, or a message why it was not measured.

    The factories and `setup`, which the child calls first, must be picklable.
    """
    child: _Child | None = None
    try:
        for factory in factories:
            child = child or _Child(setup)
            peak = child.measure(factory)
            if not child.process.is_alive():
                child = None
            yield peak
    finally:
        if child is not None:
            child.stop()


class _Child:
    def __init__(self, setup: Callable[[], object] | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, setup, torch.get_num_threads()), daemon=True
        )
        self.process.start()
        theirs.close()  # so that recv raises EOFError when the child ends

    def measure(self, factory: Callable[[], Workload]) -> int | str | None:
        try:
            self.connection.send(factory)
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            if code == -9:
                return "killed, probably out of memory"
            return f"its process ended with code {code}"

    def stop(self) -> None:
        self.connection.close()
        self.process.join()


def _serve(
    connection: Connection[Any, Any], setup: Callable[[], object] | None, threads: int
) -> None:
    if OOM_SCORE.exists():
        OOM_SCORE.write_text(MAX_OOM_SCORE)
    torch.set_num_threads(threads)
    return_freed_memory()
    if setup is not None:
        setup()
    while True:
        try:
            factory = connection.recv()
        except EOFError:
            return
        try:
            result: int | str | None = measured_peak(factory())
        except (MemoryError, RuntimeError) as error:
            # torch raises RuntimeError when an allocation fails.
            result = f"failed: {str(error).splitlines()[0]}"
        connection.send(result)


LONG_RUN = 1.0  # seconds; longer runs are timed once


def measured_rows(
    rows: Sequence[CostRow],
    *,
    factories: Mapping[str, Callable[[], Workload]],
    free_bytes: int,
    setup: Callable[[], object],
    log: Callable[[str], None],
) -> list[CostRow]:
    """The rows with measured time and memory. Rows that need more than `free_bytes` are not run."""
    measured = []
    for row in rows:
        if row.peak_bytes > free_bytes:
            measured.append(_with_note(row, _too_large_note(row, free_bytes)))
            continue
        log(f"time of {row.name}")
        rounds = 5 if (row.seconds or 0.0) < LONG_RUN else 1
        seconds = measured_seconds(factories[row.name](), rounds=rounds)
        measured.append(replace(row, measured_seconds=seconds))
    ran = [index for index, row in enumerate(measured) if row.measured_seconds is not None]
    log("memory")
    peaks = peaks_in_child([factories[measured[index].name] for index in ran], setup=setup)
    for index, peak in zip(ran, peaks, strict=True):
        row = measured[index]
        if isinstance(peak, str):
            measured[index] = _with_note(row, f"memory was not measured: {peak}")
        else:
            measured[index] = replace(row, measured_bytes=peak)
    return measured


def _with_note(row: CostRow, note: str) -> CostRow:
    return replace(row, note="; ".join(filter(None, [row.note, note])))


def _too_large_note(row: CostRow, free: int) -> str:
    return (
        f"not run: it takes {row.peak_bytes / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; "
        "choose a smaller --length or --batch"
    )
