"""Running a study on a Ray cluster, or on a local one that is started for it.

The study folder must be on a file system shared by all machines, under one path, and regard must be
installed on all. Ray retries a task that lost its machine or process, and the run resumes from its
checkpoint. Runs with a budget of seconds are submitted one at a time.
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
    unique_jobs,
    write_failure,
)
from regard.training.process import Interruption

MAX_RETRIES = 3  # of a run whose process or machine was lost
POLL_SECONDS = 0.5
STOP_TIMEOUT = 60.0
LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 100 * 2**20  # Ray's default is a third of the memory, and nothing is stored


class RayExecutor:
    """Runs jobs on the Ray cluster at `address`; by default on a local cluster."""

    def __init__(self, address: str | None = None) -> None:
        """`run` connects to the cluster."""
        self.address = address
        if address is None:
            # Must be set before Ray is imported: a local cluster binds to the loopback address only.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        _ray()

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        """As `Executor.run`."""
        jobs = unique_jobs(jobs)
        for job in jobs:
            if job.is_finished:
                yield Finished(job, 0.0)
        left = [job for job in jobs if not job.is_finished]
        if not left:
            return
        parallel = [job for job in left if not job.is_timed]
        sequential = [[job] for job in left if job.is_timed]
        # In this order: Ray installs its own SIGTERM handler when it starts.
        with _cluster(self.address), Interruption() as interruption:
            messages = _ray().remote(num_cpus=0)(_MessageQueue).remote()
            for group in [parallel, *sequential]:
                yield from _run_jobs(group, messages, interruption)
        if interruption.requested:
            raise KeyboardInterrupt


class _MessageQueue:
    """A Ray actor that collects the progress messages of tasks."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []

    def put(self, key: str, progress: Any) -> None:
        """Add a `JobProgress`, or None for a job that started."""
        self.messages.append((key, progress))

    def take(self) -> list[tuple[str, Any]]:
        """All messages since the last call."""
        messages, self.messages = self.messages, []
        return messages


def _task(job: Job, messages: Any) -> Any:
    """The Ray task of a job."""
    from regard.core.malloc import keep_freed_memory
    from regard.studies.execution.jobs import try_job

    keep_freed_memory()
    messages.put.remote(job.key, None)
    return try_job(job, lambda progress: messages.put.remote(job.key, progress))


def _run_jobs(jobs: Sequence[Job], messages: Any, interruption: Interruption) -> Iterator[Event]:
    """Run all jobs, until a stop is requested."""
    ray = _ray()
    if interruption.requested:
        return
    tasks = {
        ray.remote(num_cpus=job.threads, max_retries=MAX_RETRIES)(_task).remote(job, messages): job
        for job in jobs
    }
    while tasks and not interruption.requested:
        ended, _ = ray.wait(list(tasks), timeout=POLL_SECONDS)
        running = {job.key: job for job in tasks.values()}
        yield from _progress_events(ray.get(messages.take.remote()), running)
        for task in ended:
            yield _event(tasks.pop(task), task)
    _stop(tasks)


def _progress_events(
    messages: Iterable[tuple[str, Any]], running: dict[str, Job]
) -> Iterator[Event]:
    """The events of jobs that are still running."""
    for key, progress in messages:
        if key in running:
            job = running[key]
            if progress is None:
                remove_failure(job)
            yield Started(job) if progress is None else Progressed(job, *progress)


def _event(job: Job, task: Any) -> Event:
    ray = _ray()
    try:
        result = ray.get(task)
    except ray.exceptions.RayError as error:
        reason = " ".join(f"Ray failed: {error}".split())
        write_failure(job, reason=reason)
        return Failed(job, reason)
    if result.state == "finished" and job.is_finished:
        return Finished(job, result.seconds)
    if result.state == "finished":
        result = result._replace(
            reason=f"It was trained, but '{job.folder}' is not visible here. Give a folder with --out that "
            "all machines of the cluster share."
        )
    reason = result.reason or "Its process was stopped. Start the study again to resume it."
    write_failure(job, reason=reason, traceback=result.traceback)
    return Failed(job, reason)


def _stop(tasks: Iterable[Any]) -> None:
    """Cancel tasks, which raises KeyboardInterrupt in them: the runs save a checkpoint."""
    ray, left = _ray(), list(tasks)
    for task in left:
        ray.cancel(task, force=False, recursive=False)
    if left:
        ray.wait(left, num_returns=len(left), timeout=STOP_TIMEOUT)


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Connect to a cluster; one that was started here is shut down on exit."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local: dict[str, Any] = {
        "num_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
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
            "as HOST:PORT, or omit it for a local cluster."
        ) from error
    try:
        if address is None and ray.util.get_node_ip_address() != LOOPBACK:
            raise RegardError(
                "Ray was imported before the study, and listens to other machines. Import it later, or "
                "connect to a cluster yourself: ray.init()."
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
