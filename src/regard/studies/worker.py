"""A process that does one job after another for the executor that started it.

It keeps to its own cores. When it is asked to stop, or its parent is gone, the run it is at saves a
checkpoint and it ends. Ctrl-C is the parent's affair: a terminal sends it to every process at once, and a
run that hears two requests to stop does not wait to save.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue

from regard.studies.executor import Job
from regard.studies.messages import Result, Standing

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
    from regard.core.allocator import keep_freed_memory
    from regard.studies.attempt import attempt

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
