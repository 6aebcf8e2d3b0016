"""How long work really takes here, and how much memory."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from statistics import median

import torch

from regard.costs.workload import Run, Workload

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
# What resets the peak in the kernel's book of this process.
RESET_PEAK = "5"


def measured_seconds(workload: Workload, *, at_least: float = 0.2, rounds: int = 5) -> float:
    """The median of several rounds, after one to warm up; short work is repeated within a round."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run = workload.prepare()
    return median_seconds(run, at_least=at_least, rounds=rounds)


def median_seconds(run: Run, *, at_least: float = 0.2, rounds: int = 5) -> float:
    """The median time of one call, over rounds that take `at_least` seconds together."""
    run()
    began = time.perf_counter()
    run()
    once = time.perf_counter() - began
    repeats = max(1, round(at_least / rounds / max(once, 1e-7)))
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(repeats):
            run()
        times.append((time.perf_counter() - began) / repeats)
    return median(times)


def quickest_seconds(run: Run, *, rounds: int = 5, at_least: float = 0.001) -> float:
    """The shortest time of one call: what it takes undisturbed. Rounds of short work have many calls."""
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run = workload.prepare()
    run()  # what is allocated once for good: threads, kernels
    _give_back()
    CLEAR.write_text(RESET_PEAK)
    before = _book("VmRSS")
    run()
    return max(0, _book("VmHWM") - before)


def _give_back() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return  # another C library; the figure is then the smaller for it


def _book(entry: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(entry))
    return int(line.split()[1]) * 1024
