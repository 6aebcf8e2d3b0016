"""The runs of a study as tasks of a Ray cluster, or of one that is started here for the while.

The folders are the same as those of `processes.py`, so on a cluster the study must lie on a file system
that all machines share, under one path, and regard must be installed on all. Ray gives a task that lost
its machine or its process to another, which takes the run up from its checkpoint. Runs that the clock
ends are handed in one at a time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard.core.errors import RegardError
from regard.studies.execution.jobs import (
    Event,
    Failed,
    Finished,
    Job,
    Progressed,
    Started,
    remove_failure,
    without_repeats,
    write_failure,
)
from regard.training.process import Interruption

RETRIES = 3  # of a run whose process or machine was lost
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_STOP = 60.0
LOOPBACK = "127.0.0.1"
OBJECT_BYTES = (
    100 * 2**20
)  # Ray would take a third of the memory for objects that nobody puts there


class OnRay:
    """The executor for the cluster at `address`; without one, a cluster of this machine's cores."""

    def __init__(self, address: str | None = None) -> None:
        """Connect to nothing yet."""
        self.address = address
        if address is None:
            # Read when Ray is imported: a cluster for this machine alone listens to no other, which
            # on Linux it would, whatever address it is given.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        _ray()

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        """As `Executor.run`."""
        jobs = without_repeats(jobs)
        for job in jobs:
            if job.is_finished:
                yield Finished(job, 0.0)
        left = [job for job in jobs if not job.is_finished]
        if not left:
            return
        together = [job for job in left if not job.is_timed]
        alone = [[job] for job in left if job.is_timed]
        # In this order: Ray takes SIGTERM for itself when it starts.
        with _cluster(self.address), Interruption() as interruption:
            board = _ray().remote(num_cpus=0)(_Board).remote()
            for group in [together, *alone]:
                yield from _done(group, board, interruption)
        if interruption.wanted:
            raise KeyboardInterrupt


class _Board:
    """Where tasks write how they go, and the executor reads it."""

    def __init__(self) -> None:
        self.news: list[tuple[str, Any]] = []

    def note(self, key: str, standing: Any) -> None:
        """A standing, or None for a job that was taken."""
        self.news.append((key, standing))

    def take(self) -> list[tuple[str, Any]]:
        """All that was noted since the last time."""
        news, self.news = self.news, []
        return news


def _task(job: Job, board: Any) -> Any:
    """What runs on the cluster."""
    from regard.core.malloc import keep_freed_memory
    from regard.studies.execution.jobs import attempt

    keep_freed_memory()
    board.note.remote(job.key, None)
    return attempt(job, lambda standing: board.note.remote(job.key, standing))


def _done(jobs: Sequence[Job], board: Any, interruption: Interruption) -> Iterator[Event]:
    """Do all jobs, or stop in between if somebody wants it."""
    ray = _ray()
    if interruption.wanted:
        return
    tasks = {
        ray.remote(num_cpus=job.threads, max_retries=RETRIES)(_task).remote(job, board): job
        for job in jobs
    }
    while tasks and not interruption.wanted:
        ended, _ = ray.wait(list(tasks), timeout=SECONDS_BETWEEN_LOOKS)
        running = {job.key: job for job in tasks.values()}
        yield from _told(ray.get(board.take.remote()), running)
        for task in ended:
            yield _event(tasks.pop(task), task)
    _stop(tasks)


def _told(news: Iterable[tuple[str, Any]], running: dict[str, Job]) -> Iterator[Event]:
    """The news of jobs whose end was not told yet."""
    for key, standing in news:
        if key in running:
            job = running[key]
            if standing is None:
                remove_failure(job)
            yield Started(job) if standing is None else Progressed(job, *standing)


def _event(job: Job, task: Any) -> Event:
    ray = _ray()
    try:
        result = ray.get(task)
    except ray.exceptions.RayError as error:
        reason = " ".join(f"Ray could not do it: {error}".split())
        write_failure(job, reason=reason)
        return Failed(job, reason)
    if result.state == "finished" and job.is_finished:
        return Finished(job, result.seconds)
    if result.state == "finished":
        result = result._replace(
            reason=f"It was trained, but '{job.folder}' is not seen from here. Name a folder with --out "
            "that all machines of the cluster share."
        )
    reason = result.reason or "Its process was asked to stop. Start the study again to go on."
    write_failure(job, reason=reason, traceback=result.traceback)
    return Failed(job, reason)


def _stop(tasks: Iterable[Any]) -> None:
    """Let the runs save where they are: cancelling is to them what Ctrl-C is."""
    ray, left = _ray(), list(tasks)
    for task in left:
        ray.cancel(task, force=False, recursive=False)
    if left:
        ray.wait(left, num_returns=len(left), timeout=SECONDS_TO_STOP)


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Connected; one that was started here ends here, and one that was there is left as it was."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local: dict[str, Any] = {
        "num_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "include_dashboard": False,
        "object_store_memory": OBJECT_BYTES,
    }
    try:
        ray.init(
            address=address or "local",
            logging_level=logging.ERROR,
            log_to_driver=False,
            **({} if address else local),
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RegardError(
            f"The Ray cluster at '{address or 'this machine'}' cannot be used: {error}. Give its address "
            "as HOST:PORT, or leave it away to use this machine."
        ) from error
    try:
        if address is None and ray.util.get_node_ip_address() != LOOPBACK:
            raise RegardError(
                "Ray was imported before the study, and listens to other machines. Do not import it, or "
                "connect it to a cluster yourself: ray.init()."
            )
        yield
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise RegardError(
            "Studies on a cluster need Ray, which is not installed. Install it with: "
            "pip install 'regard[ray]'"
        ) from error
    return ray
