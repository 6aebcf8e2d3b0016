"""Times of rivals measured in turns, so that a slow spell of the machine falls on all of them alike.

Work is done on one thread, and the processor's time for it counts: what other programs take does not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from scipy.stats import binom

Times = dict[str, list[float]]


class MedianInterval(NamedTuple):
    """A median and the order statistics that enclose the true one 19 times in 20, whatever the law."""

    median: float
    low: float
    high: float


def interleaved_seconds(rivals: Mapping[str, Callable[[], object]], *, rounds: int) -> Times:
    """Seconds of every rival in every round, after one call of each to warm up."""
    times: Times = {name: [] for name in rivals}
    with one_thread():
        for run in rivals.values():
            run()
        for _ in range(rounds):
            for name, run in rivals.items():
                began = time.process_time()
                run()
                times[name].append(time.process_time() - began)
    return times


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def quotient(above: Sequence[float], below: Sequence[float]) -> MedianInterval:
    """By how much the first took longer than the second, round by round."""
    return median_interval([first / second for first, second in zip(above, below, strict=True)])


def median_interval(values: Sequence[float]) -> MedianInterval:
    """The median with its 95 % interval; of fewer than six values, from the least to the greatest.

    >>> median_interval([3.0, 1.0, 2.0])
    MedianInterval(median=2.0, low=1.0, high=3.0)
    """
    ordered = sorted(values)
    # At most 2.5 % of the time do fewer than `outside` of them lie on one side of the true median.
    outside = int(binom.ppf(0.025, len(ordered), 0.5))
    place = max(0, outside - 1)
    return MedianInterval(statistics.median(ordered), ordered[place], ordered[-1 - place])
