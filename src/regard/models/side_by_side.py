"""Independent pieces of work at the same time, each in a thread with one of torch's threads to itself.

A step of decoding is many small operations. Two threads that share each of them wait for one another
at every one; two threads with half of the sentences each wait once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Found = TypeVar("Found")


def side_by_side(jobs: Sequence[Callable[[], Found]]) -> list[Found]:
    """What the jobs return, in their order; the first error, if there is one."""
    if len(jobs) == 1:
        return [jobs[0]()]
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(
            len(jobs), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            return [running.result() for running in [pool.submit(job) for job in jobs]]
    finally:
        # What a thread sets is also what new threads begin with.
        torch.set_num_threads(threads)
