"""Run-folder locks, and graceful shutdown on Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PROBE_SECONDS = 0.1  # `is_locked` holds a lock for microseconds


@contextmanager
def folder_lock(folder: Path, *, timeout: float = 0.0) -> Iterator[None]:
    """An exclusive lock on a run folder, which is created if needed; waits at most `timeout` seconds.

    The operating system releases the lock when the process ends, also if it is killed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegardError(
            f"The run folder '{folder}' cannot be created: {error.strerror or error}. Choose another path."
        ) from error
    if os.name != "posix":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + max(timeout, PROBE_SECONDS)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise RegardError(
                        f"Another process is training in '{folder}'. Wait for it, stop it, or choose "
                        "another folder."
                    ) from error
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of an existing folder. Nothing is written, and nobody waits."""
    if os.name != "posix":
        return False
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class EvaluationInterruptedError(BaseException):
    """Raised inside `interruptible`; a BaseException, so that `except Exception` does not catch it."""


class Interruption:
    """Ctrl-C and SIGTERM as a request to stop, which the training loop checks after every step.

    The first signal sets `requested`, and raises inside `interruptible` (an evaluation, which can be
    repeated). The second raises KeyboardInterrupt. Signals are handled in the main thread only, and the
    previous handlers are restored on exit.
    """

    def __init__(self) -> None:
        """No request yet."""
        self.requested = False
        self._interruptible = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers, if this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        """Restore the handlers."""
        for number, handler in self._previous.items():
            # None: not installed from Python, so it cannot be restored from here.
            if handler is not None:
                signal.signal(number, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise `EvaluationInterruptedError` inside as soon as a stop is requested."""
        self._interruptible = True
        try:
            if self.requested:
                raise EvaluationInterruptedError
            yield
        finally:
            self._interruptible = False

    def _handle(self, number: int, frame: object) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if self._interruptible:
            raise EvaluationInterruptedError
