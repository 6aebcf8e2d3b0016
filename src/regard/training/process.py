"""One process at a time in a run folder."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Make the folder if need be, and hold it; the hold ends with the process, however that ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegardError(
            f"'{folder}' cannot be made a run folder: {error.strerror or error}. Choose another place."
        ) from error
    if os.name != "posix":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RegardError(
                f"Another process is training in '{folder}'. Wait for it, stop it, or choose another "
                "folder."
            ) from error
        yield
    finally:
        os.close(descriptor)


# Ctrl-C and SIGTERM as a wish to stop, which the loop grants at the end of a step.
#
# The first signal is noted; within `abandoning` (an evaluation, which can be done again) it also
# ends what is going on. A second one ends the program at once. Handlers are put back as they were;
# outside the main thread, where Python allows none, signals are left alone.


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class AbandonedError(BaseException):
    """Ends what goes on inside `abandoning`; not an Exception, lest an `except` on the way takes it."""


class Interruption:
    """Whether somebody wants the run to stop."""

    def __init__(self) -> None:
        """Nobody does yet."""
        self.wanted = False
        self._may_abandon = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Listen, if this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            for one in SIGNALS:
                self._before[one] = signal.signal(one, self._heard)
        return self

    def __exit__(self, *exception: object) -> None:
        """Put the handlers back."""
        for one, handler in self._before.items():
            # None: it was set by something other than Python, and cannot be set again from here.
            if handler is not None:
                signal.signal(one, handler)

    @contextmanager
    def abandoning(self) -> Iterator[None]:
        """What stands inside ends with `AbandonedError` when a signal comes, or has come."""
        self._may_abandon = True
        try:
            if self.wanted:
                raise AbandonedError
            yield
        finally:
            self._may_abandon = False

    def _heard(self, number: int, frame: object) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        if self._may_abandon:
            raise AbandonedError
