"""The queue of inputs that wait for a model: one worker thread, and batches of inputs that are alike.

    queue = WorkQueue(limits)
    jobs = queue.submit(work, [("a text", 3), ("another", 2)])     429 if there is no room, 503 after close
    answers = [job.answer.result() for job in jobs]
    queue.cancel(jobs)                                             what still waits is dropped

A batch is the oldest input, and others of the same work that are not much longer: a long input does not
hold up short ones. What a client no longer waits for leaves the queue at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from regard.serving.limits import Limits, queue_full, shutting_down

MAX_LENGTH_FACTOR, SHORT_LENGTH = 2, 16
# Nothing came for so long: the batch is not waited for any more.
QUIET_SECONDS = 0.001


@runtime_checkable
class Work(Protocol):
    """What a model does with inputs; inputs of equal works may be in one batch."""

    @property
    def is_batched(self) -> bool:
        """Whether it takes several inputs."""
        ...

    def run(self, values: list[Any], *, is_wanted: Callable[[], bool]) -> Sequence[Any]:
        """One answer per input; a long computation ends early when its answer is not wanted any more."""
        ...


@dataclass(eq=False)
class Job:
    """An input that waits, its length, and its future answer."""

    work: Work
    value: Any
    length: int
    answer: Future[Any] = field(default_factory=Future)
    is_cancelled: bool = False


class WorkQueue:
    """Inputs that wait, and the thread that runs the models.

    Args:
        limits: `max_waiting`, `max_batch` and `batch_wait_seconds` count.
        prepare: Called first in the thread, such as to set its number of threads.
    """

    def __init__(self, limits: Limits, *, prepare: Callable[[], object] = lambda: None) -> None:
        self.limits = limits
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._refuses = self._closed = self._is_busy = False
        self._prepare = prepare
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """How many inputs wait."""
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether the model runs."""
        return self._is_busy

    @property
    def refuses(self) -> bool:
        """Whether new inputs are refused."""
        return self._refuses

    def refuse(self) -> None:
        """Refuse new inputs from now on. It takes no lock, so that a signal handler may call it."""
        self._refuses = True

    def submit(self, work: Work, inputs: Iterable[tuple[Any, int]]) -> list[Job]:
        """Add inputs with their lengths, all or none."""
        jobs = [Job(work, value, length) for value, length in inputs]
        with self._changed:
            if self._refuses:
                raise shutting_down()
            if len(self._waiting) + len(jobs) > self.limits.max_waiting:
                raise queue_full(len(self._waiting), self.limits)
            self._waiting.extend(jobs)
            self._changed.notify_all()
        return jobs

    def cancel(self, jobs: Iterable[Job]) -> None:
        """Forget jobs: those that wait leave the queue, those that run end early where they can."""
        with self._changed:
            for job in jobs:
                job.is_cancelled = True
                job.answer.cancel()
            self._waiting = deque(job for job in self._waiting if not job.is_cancelled)

    def close(self, *, timeout: float | None = 0.0) -> None:
        """Refuse new inputs and answer those that wait with an error; waits for the batch that runs."""
        with self._changed:
            self._refuses = self._closed = True
            left, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for job in left:
            if job.answer.set_running_or_notify_cancel():
                job.answer.set_exception(shutting_down())
        self._thread.join(timeout)

    def _work(self) -> None:
        self._prepare()
        while batch := self._next_batch():
            self._is_busy = True
            self._answer([job for job in batch if job.answer.set_running_or_notify_cancel()])
            self._is_busy = False

    def _next_batch(self) -> list[Job]:
        """Wait for inputs, and take a batch; empty after `close`."""
        with self._changed:
            while not self._closed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._wait_for_others()
                if self._waiting:
                    return self._take()
        return []

    def _wait_for_others(self) -> None:
        until = time.monotonic() + self.limits.batch_wait_seconds
        while self._waiting and self._waiting[0].work.is_batched:
            left, count = until - time.monotonic(), len(self._waiting)
            if left <= 0 or count >= self.limits.max_batch:
                return
            self._changed.wait(min(left, QUIET_SECONDS))
            if len(self._waiting) <= count:
                return

    def _take(self) -> list[Job]:
        first = self._waiting.popleft()
        if not first.work.is_batched:
            return [first]
        longest = max(MAX_LENGTH_FACTOR * first.length, SHORT_LENGTH)
        alike = (job for job in self._waiting if job.work == first.work and job.length <= longest)
        batch = [first, *islice(alike, self.limits.max_batch - 1)]
        self._waiting = deque(job for job in self._waiting if job not in batch)
        return batch

    def _answer(self, batch: list[Job]) -> None:
        if not batch:
            return
        try:
            answers = batch[0].work.run(
                [job.value for job in batch],
                is_wanted=lambda: not all(job.is_cancelled for job in batch),
            )
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
                return
            for job in batch:  # one that cannot be used does not spoil the others
                self._answer([job])
            return
        for job, answer in zip(batch, answers, strict=True):
            job.answer.set_result(answer)
