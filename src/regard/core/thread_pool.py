"""Independent jobs in a thread pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")


def run_in_thread_pool(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run jobs on torch's number of threads, each job on one of them; results in order.

    Threads that share each of many small operations synchronise at every one, and spin while they wait;
    threads with jobs of their own synchronise once, at the end.
    """
    threads = torch.get_num_threads()
    if len(jobs) == 1 or threads == 1:
        return [job() for job in jobs]
    try:
        with ThreadPoolExecutor(
            min(len(jobs), threads), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            try:
                return [future.result() for future in [pool.submit(job) for job in jobs]]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        # A thread's setting is the default of new threads.
        torch.set_num_threads(threads)
