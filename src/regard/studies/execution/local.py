"""The runs of a study on this machine: a process a group of cores, each with a run at a time.

Processes are started once and kept, since importing torch takes longer than some runs. Each is pinned to
its own cores, so that variants do not disturb one another; runs that the clock ends have the machine to
themselves, one after the other. An error in a run is that run's alone. A process that is killed, as the
system does when memory runs out, has its run taken up by another, once.
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
    Progressed,
    Result,
    Standing,
    Started,
    remove_failure,
    without_repeats,
    write_failure,
)
from regard.training.process import Interruption

# A process that does one job after another for the executor that started it.
#
# It keeps to its own cores. When it is asked to stop, or its parent is gone, the run it is at saves
# a checkpoint and it ends. Ctrl-C is the parent's affair: a terminal sends it to every process at
# once, and a run that hears two requests to stop does not wait to save.


# A step, or what cannot be abandoned of an evaluation, may take this long; then nobody waits any more.
SECONDS_TO_STOP = 60.0


def work(connection: Connection, cores: Sequence[int]) -> None:
    """Take jobs from the connection until it brings None or is closed; answer each with its result.

    Before the result come None, as soon as the job is taken, and the standings of the run.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    stopping = _Stopping()
    inbox: SimpleQueue[Job | None] = SimpleQueue()
    listener = threading.Thread(target=_listen, args=(connection, inbox, stopping), daemon=True)
    listener.start()
    # Only now, so that torch sees the cores it may use.
    from regard.core.malloc import keep_freed_memory
    from regard.studies.execution.jobs import attempt

    def tell(message: Standing | Result | None) -> None:
        # A parent that is gone is the listener's affair: the run is to save first.
        with suppress(OSError):
            connection.send(message)

    keep_freed_memory()
    while (job := inbox.get()) is not None:
        tell(None)
        result = attempt(job, tell)
        tell(result)
        if result.state == "stopped":
            break
    # Everything is written; taking torch apart in good order would only take time.
    os._exit(0)


class _Stopping:
    """SIGTERM once at most, so that a run saves before it ends."""

    def __init__(self) -> None:
        """Outside a training, where nothing is to be saved, SIGTERM ends the process."""
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        else:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        # Whoever handles a signal, its number is written here too.
        self._heard, heard = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(heard, False)
        signal.set_wakeup_fd(heard, warn_on_full_buffer=False)

    def ask(self) -> None:
        """Raise SIGTERM, unless one has come from elsewhere; end the process if that has no effect."""
        latest = threading.Timer(SECONDS_TO_STOP, os._exit, [1])
        latest.daemon = True
        latest.start()
        try:
            os.read(self._heard, 1)
        except BlockingIOError:
            signal.raise_signal(signal.SIGTERM)


def _listen(connection: Connection, inbox: SimpleQueue[Job | None], stopping: _Stopping) -> None:
    """Hand on what the parent sends; None, or its end, is a request to stop."""
    job: Job | None
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            job = None
        inbox.put(job)
        if job is None:
            stopping.ask()
            return


TRIES = 2
SECONDS_BETWEEN_LOOKS = 0.2  # for a signal, where no process has anything to tell


class Processes:
    """The executor for one machine; `workers` at a time, or as many as its cores have room for."""

    def __init__(self, workers: int | None = None) -> None:
        """Start nothing yet."""
        if workers is not None and (type(workers) is not int or workers < 1):
            raise RegardError(
                f"workers={workers!r}: it must be a whole number of at least 1. Leave it away for as "
                "many as there are cores."
            )
        self.workers = workers

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        """As `Executor.run`."""
        jobs = without_repeats(jobs)
        for job in jobs:
            if job.is_finished:
                yield Finished(job, 0.0)
        left = [job for job in jobs if not job.is_finished]
        if not left:
            return
        places = [_Place(cores) for cores in self._core_groups(left)]
        with Interruption() as interruption, _stopped_at_the_end(places):
            together = [job for job in left if not job.is_timed]
            yield from _done(together, places, interruption)
            alone = [job for job in left if job.is_timed]
            yield from _done(alone, places[:1], interruption)
        if interruption.wanted:
            raise KeyboardInterrupt

    def _core_groups(self, jobs: Sequence[Job]) -> list[list[int]]:
        """The cores of each process; they share some only if more processes were asked for than fit."""
        cores = _own_cores()
        fitting = max(1, len(cores) // max(job.threads for job in jobs))
        count = fitting if self.workers is None else self.workers
        return core_groups(cores, count)


def core_groups(cores: Sequence[int], count: int) -> list[list[int]]:
    """Neighbouring cores in so many groups.

    >>> core_groups([0, 1, 2, 3, 4], 2), core_groups([0, 1], 3)
    ([[0, 1], [2, 3, 4]], [[0], [1], [0]])
    """
    if count > len(cores):
        return [[cores[number % len(cores)]] for number in range(count)]
    ends = [number * len(cores) // count for number in range(count + 1)]
    return [list(cores[ends[number] : ends[number + 1]]) for number in range(count)]


def _own_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


class _Place:
    """Some cores, the process on them if there is one, and the job it has."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = cores
        self.job: Job | None = None
        self.process: multiprocessing.process.BaseProcess | None = None

    def give(self, job: Job) -> None:
        """Hand a job to the process, started if need be."""
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.connection, theirs = context.Pipe()
            self.process = context.Process(target=work, args=(theirs, self.cores), daemon=True)
            self.process.start()
            theirs.close()  # so that the end of the process is the end of the connection
            self.has_spoken = False
        self.job = job
        with suppress(OSError):  # it died just now: the connection will say so
            self.connection.send(job)

    def heard(self) -> Standing | Result | None:
        """The next message; EOFError if there will be none."""
        try:
            message: Standing | Result | None = self.connection.recv()
        except OSError as error:
            raise EOFError from error
        self.has_spoken = True
        return message

    def buried(self) -> int:
        """Wait for a process that is at its end; its exit code."""
        assert self.process is not None
        self.process.join()
        code = self.process.exitcode or 0
        self.connection.close()
        self.process = self.job = None
        return code


def _done(
    jobs: Iterable[Job], places: Sequence[_Place], interruption: Interruption
) -> Iterator[Event]:
    """Do all jobs, or stop in between if somebody wants it."""
    waiting, tries = deque(jobs), Counter[str]()
    while not interruption.wanted:
        for place in places:
            if waiting and place.job is None:
                place.give(waiting.popleft())
        busy = {place.connection: place for place in places if place.job is not None}
        if not busy:
            return
        for connection in wait(list(busy), timeout=SECONDS_BETWEEN_LOOKS):
            place = busy[connection]  # type: ignore[index]
            job = place.job
            assert job is not None
            try:
                message = place.heard()
            except EOFError:
                message = Result("stopped")
            if (
                isinstance(message, Result) and message.state == "stopped"
            ):  # nobody here asked for it
                code = place.buried()
                if code > 0 and not place.has_spoken:
                    raise _cannot_start(code)
                tries[job.key] += 1
                if tries[job.key] < TRIES:
                    waiting.appendleft(job)
                    continue
                message = Result("failed", reason=_killed(code))
            yield _event(job, message)
            if isinstance(message, Result):
                place.job = None


def _event(job: Job, message: Standing | Result | None) -> Event:
    match message:
        case None:
            remove_failure(job)
            return Started(job)
        case Standing():
            return Progressed(job, *message)
        case Result(state="finished"):
            return Finished(job, message.seconds)
        case _:
            write_failure(job, reason=message.reason, traceback=message.traceback)
            return Failed(job, message.reason)


@contextmanager
def _stopped_at_the_end(places: Sequence[_Place]) -> Iterator[None]:
    """Ask all processes to save and end, wait for them, and kill those that do not."""
    try:
        yield
    finally:
        processes = [place.process for place in places if place.process is not None]
        for place in places:
            if place.process is not None:
                with suppress(OSError):
                    place.connection.send(None)
        try:
            for process in processes:
                process.join(SECONDS_TO_STOP)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _killed(code: int) -> str:
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return (
        f"Its process was ended {TRIES} times ({how}), as the system does when memory runs out. Use fewer "
        "workers, a smaller model or smaller batches."
    )


def _cannot_start(code: int) -> RegardError:
    return RegardError(
        f"A process to train in ended before it began (exit code {code}; what it said stands above). A "
        'script that starts a study must do so under `if __name__ == "__main__":`, for every process '
        "imports it."
    )
