"""One process at a time in a run folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
