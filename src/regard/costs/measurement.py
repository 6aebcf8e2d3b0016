"""How long work really takes here, and how much memory."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import torch

from regard.costs.workload import Run, Workload

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
