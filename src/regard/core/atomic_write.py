"""Atomic file writes: a reader finds the old content or the new one, never half of it.

Also the folder of cached files.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from regard.core.errors import RegardError

TEMPORARY_PREFIX = ".regard."
ANYONE_MAY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
NEW_FILE_MODE = 0o644


def user_cache_folder() -> Path:
    """The folder of regard in the user's cache, or in $REGARD_CACHE."""
    home = os.environ.get("REGARD_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "regard"


def validate_writable(path: Path) -> Path:
    """Raise an error unless `path` can be written, before the work is done; returns the resolved path.

    Symbolic links are followed. The file need not exist; if it does, it must be a regular, writable
    file. The check creates and removes a temporary file in the nearest existing folder.
    """
    try:
        target = path.resolve()
        _validate_replaceable(path, target)
        nearest = next(folder for folder in target.parents if folder.exists())
    except (OSError, RuntimeError) as error:  # RuntimeError: circular links
        raise _write_error(path, _reason(error)) from error
    if not nearest.is_dir():
        raise _write_error(path, f"'{nearest}' is not a folder")
    try:
        # Permission bits are not enough: root passes them all, and some file systems are read-only.
        _temporary_file(nearest).unlink()
    except OSError as error:
        why = f"no file can be created in '{nearest}' ({_reason(error)})"
        raise _write_error(path, why) from error
    return target


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write text or bytes to `path` atomically."""
    with open_atomic(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A context manager: write to a temporary file, which is renamed to `path` if there is no error.

    Creates the folder of `path`. The content is flushed to disk (fsync) before the rename, so that a
    power cut leaves the old file or the new one. A replaced file keeps its mode.
    """
    target = validate_writable(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder: a rename works only within one file system.
        temporary = _temporary_file(target.parent)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is readable by its owner only.
        temporary.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else NEW_FILE_MODE)
        temporary.replace(target)
        temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        raise _write_error(path, _reason(error)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files that killed writers left in `folder`."""
    for temporary in folder.glob(f"{TEMPORARY_PREFIX}*"):
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Flush the folder, which holds the new name, to disk, where the system supports it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _validate_replaceable(path: Path, target: Path) -> None:
    try:
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(mode):
        example = path / "page.html"
        raise RegardError(f"'{path}' is a folder; give the path of a file, such as {example}.")
    if stat.S_ISLNK(mode):  # still one after resolving
        raise _write_error(path, "its symbolic links are circular")
    if not stat.S_ISREG(mode):
        raise _write_error(path, f"it is {_kind(mode)}, not a regular file")
    # Renaming over a file needs no permission on the file itself, so it is checked here; the mode
    # bits too, since root may write every file.
    if not (mode & ANYONE_MAY_WRITE and os.access(target, os.W_OK)):
        raise _write_error(path, "the file is read-only")


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _temporary_file(folder: Path) -> Path:
    """A new, empty file; its name is short, since the target's may have the maximum length."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=TEMPORARY_PREFIX)
    os.close(descriptor)
    return Path(name)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _write_error(path: Path, why: str) -> RegardError:
    return RegardError(f"'{path}' cannot be written: {why}. Choose another path.")
