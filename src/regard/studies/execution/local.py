"""Running a study on this machine with a pool of worker processes.

Workers are reused, since importing torch takes longer than some runs. Each is pinned to its own cores
(CPU affinity), so that parallel runs do not slow each other down. Runs with a budget of seconds are run
alone, one after the other. An error in a run does not affect the others. If a worker is killed, for
example out of memory, its run is retried once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue

from regard.core.errors import RegardError
from regard.studies.execution.jobs import (
    Event,
    Failed,
    Finished,
    Job,
    JobProgress,
    JobResult,
    Progressed,
    Started,
    remove_failure,
    unique_jobs,
    write_failure,
)
from regard.training.process import Interruption

STOP_TIMEOUT = 60.0  # for the current step and its checkpoint
MAX_ATTEMPTS = 2
POLL_SECONDS = 0.2


def worker_main(connection: Connection, cores: Sequence[int]) -> None:
    """Run jobs from the connection until it yields None or is closed.

    For each job the worker sends None when it starts, then `JobProgress`, then a `JobResult`. On a request
    to stop, or if the parent is gone, the current run saves a checkpoint and the worker exits. Ctrl-C,
    which a terminal sends to all processes, is left to the parent.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    stop_signal = _StopSignal()
    inbox: SimpleQueue[Job | None] = SimpleQueue()
    listener = threading.Thread(target=_listen, args=(connection, inbox, stop_signal), daemon=True)
    listener.start()
    # Imported after pinning, so that torch sees the available cores.
    from regard.core.malloc import keep_freed_memory
    from regard.studies.execution.jobs import try_job

    def send(message: JobProgress | JobResult | None) -> None:
        # If the parent is gone, the listener stops the run after its checkpoint.
        with suppress(OSError):
            connection.send(message)

    keep_freed_memory()
    while (job := inbox.get()) is not None:
        send(None)
        result = try_job(job, send)
        send(result)
        if result.state == "stopped":
            break
    # Everything is written; skip the slow interpreter shutdown.
    os._exit(0)


class _StopSignal:
    """Raises SIGTERM at most once, so that a run can save its checkpoint."""

    def __init__(self) -> None:
        """Outside training, SIGTERM ends the process."""
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        else:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        # Every signal is also written to this pipe, whatever its handler.
        self._received, wakeup = os.pipe()
        os.set_blocking(self._received, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)

    def send(self) -> None:
        """Raise SIGTERM, unless one was received already; exit after a timeout."""
        timeout = threading.Timer(STOP_TIMEOUT, os._exit, [1])
        timeout.daemon = True
        timeout.start()
        try:
            os.read(self._received, 1)
        except BlockingIOError:
            signal.raise_signal(signal.SIGTERM)


def _listen(
    connection: Connection, inbox: SimpleQueue[Job | None], stop_signal: _StopSignal
) -> None:
    """Forward jobs from the parent; None or a closed connection is a request to stop."""
    job: Job | None
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            job = None
        inbox.put(job)
        if job is None:
            stop_signal.send()
            return


class LocalExecutor:
    """Runs jobs on this machine, `workers` in parallel; by default as many as fit its cores."""

    def __init__(self, workers: int | None = None) -> None:
        """Workers are started by `run`."""
        if workers is not None and (type(workers) is not int or workers < 1):
            raise RegardError(
                f"workers={workers!r}: it must be a whole number of at least 1. Omit it to use all cores."
            )
        self.workers = workers

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        """As `Executor.run`."""
        jobs = unique_jobs(jobs)
        for job in jobs:
            if job.is_finished:
                yield Finished(job, 0.0)
        left = [job for job in jobs if not job.is_finished]
        if not left:
            return
        workers = [_Worker(cores) for cores in self._core_groups(left)]
        with Interruption() as interruption, _workers_stopped(workers):
            parallel = [job for job in left if not job.is_timed]
            yield from _run_jobs(parallel, workers, interruption)
            sequential = [job for job in left if job.is_timed]
            yield from _run_jobs(sequential, workers[:1], interruption)
        if interruption.requested:
            raise KeyboardInterrupt

    def _core_groups(self, jobs: Sequence[Job]) -> list[list[int]]:
        """The cores of each worker, disjoint unless more workers are requested than fit."""
        cores = _available_cores()
        default = max(1, len(cores) // max(job.threads for job in jobs))
        count = default if self.workers is None else self.workers
        return core_groups(cores, count)


def core_groups(cores: Sequence[int], count: int) -> list[list[int]]:
    """Split cores into groups of neighbours.

    >>> core_groups([0, 1, 2, 3, 4], 2), core_groups([0, 1], 3)
    ([[0, 1], [2, 3, 4]], [[0], [1], [0]])
    """
    if count > len(cores):
        return [[cores[number % len(cores)]] for number in range(count)]
    ends = [number * len(cores) // count for number in range(count + 1)]
    return [list(cores[ends[number] : ends[number + 1]]) for number in range(count)]


def _available_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


class _Worker:
    """A worker process, its cores and its current job."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = cores
        self.job: Job | None = None
        self.process: multiprocessing.process.BaseProcess | None = None

    def submit(self, job: Job) -> None:
        """Send a job to the process; start it if needed."""
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.connection, child = context.Pipe()
            self.process = context.Process(
                target=worker_main, args=(child, self.cores), daemon=True
            )
            self.process.start()
            child.close()  # so that the connection closes with the process
            self.has_responded = False
        self.job = job
        with suppress(OSError):  # a process that just died is noticed on receive
            self.connection.send(job)

    def receive(self) -> JobProgress | JobResult | None:
        """The next message; EOFError if the process ended."""
        try:
            message: JobProgress | JobResult | None = self.connection.recv()
        except OSError as error:
            raise EOFError from error
        self.has_responded = True
        return message

    def join(self) -> int:
        """Wait for the process to end; its exit code."""
        assert self.process is not None
        self.process.join()
        code = self.process.exitcode or 0
        self.connection.close()
        self.process = self.job = None
        return code


def _run_jobs(
    jobs: Iterable[Job], workers: Sequence[_Worker], interruption: Interruption
) -> Iterator[Event]:
    """Run all jobs, until a stop is requested."""
    waiting, attempts = deque(jobs), Counter[str]()
    while not interruption.requested:
        for worker in workers:
            if waiting and worker.job is None:
                worker.submit(waiting.popleft())
        busy = {worker.connection: worker for worker in workers if worker.job is not None}
        if not busy:
            return
        for connection in wait(list(busy), timeout=POLL_SECONDS):
            worker = busy[connection]  # type: ignore[index]
            job = worker.job
            assert job is not None
            try:
                message = worker.receive()
            except EOFError:
                message = JobResult("stopped")
            if isinstance(message, JobResult) and message.state == "stopped":  # not requested here
                code = worker.join()
                if code > 0 and not worker.has_responded:
                    raise _cannot_start(code)
                attempts[job.key] += 1
                if attempts[job.key] < MAX_ATTEMPTS:
                    waiting.appendleft(job)
                    continue
                message = JobResult("failed", reason=_killed(code))
            yield _event(job, message)
            if isinstance(message, JobResult):
                worker.job = None


def _event(job: Job, message: JobProgress | JobResult | None) -> Event:
    match message:
        case None:
            remove_failure(job)
            return Started(job)
        case JobProgress():
            return Progressed(job, *message)
        case JobResult(state="finished"):
            return Finished(job, message.seconds)
        case _:
            write_failure(job, reason=message.reason, traceback=message.traceback)
            return Failed(job, message.reason)


@contextmanager
def _workers_stopped(workers: Sequence[_Worker]) -> Iterator[None]:
    """On exit, request all workers to stop, wait for them, and kill those that do not."""
    try:
        yield
    finally:
        processes = [worker.process for worker in workers if worker.process is not None]
        for worker in workers:
            if worker.process is not None:
                with suppress(OSError):
                    worker.connection.send(None)
        try:
            for process in processes:
                process.join(STOP_TIMEOUT)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _killed(code: int) -> str:
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return (
        f"Its process was killed {MAX_ATTEMPTS} times ({how}), perhaps out of memory. Use fewer workers, a "
        "smaller model or smaller batches."
    )


def _cannot_start(code: int) -> RegardError:
    return RegardError(
        f"A worker process ended while starting (exit code {code}; its error is above). A script that runs "
        'a study must do so under `if __name__ == "__main__":`, since every worker imports it.'
    )
