"""Writing a file so that whoever reads it finds the old content or the new one, never half."""

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


def require_writable(path: Path) -> Path:
    """The file that writing to `path` replaces, symbolic links followed, which need not exist yet.

    A path where no file can be written is refused, so that it is known before the work is done;
    so is one that leads to anything but a regular file, or to a read-only one. Nothing is left
    behind: a temporary file is made, and removed, in the nearest folder that exists.
    """
    try:
        target = path.resolve()
        _require_replaceable(path, target)
        nearest = next(folder for folder in target.parents if folder.exists())
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        raise _refusal(path, _reason(error)) from error
    if not nearest.is_dir():
        raise _refusal(path, f"'{nearest}' is not a folder")
    try:
        # Permission bits say little: root passes them all, and some file systems take no files.
        _temporary_file(nearest).unlink()
    except OSError as error:
        why = f"no file can be made in '{nearest}' ({_reason(error)})"
        raise _refusal(path, why) from error
    return target


def write_whole(path: Path, content: str | bytes) -> None:
    """Write text or bytes to `path`, as `writing_whole` does."""
    with writing_whole(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` at the end; after an error nothing does.

    The folder of `path` is made if it is not there. The content is on the disk before it takes the
    place of the old one, so that a power cut leaves one of the two. What must not be replaced is
    refused as by `require_writable`; a replaced file keeps its mode.
    """
    target = require_writable(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, since a file can only be renamed within one file system.
        temporary = _temporary_file(target.parent)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # A temporary file lets nobody else read; a page is for showing around.
        temporary.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else NEW_FILE_MODE)
        temporary.replace(target)
        temporary = None
        _keep_names(target.parent)
    except OSError as error:
        raise _refusal(path, _reason(error)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def remove_remains(folder: Path) -> None:
    """Remove the temporary files that writers killed in the middle left in `folder`."""
    for remains in folder.glob(f"{TEMPORARY_PREFIX}*"):
        remains.unlink(missing_ok=True)


def _keep_names(folder: Path) -> None:
    """Have the folder itself on the disk, where the system can: it is what holds the new name."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_replaceable(path: Path, target: Path) -> None:
    try:
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(mode):
        example = path / "page.html"
        raise RegardError(f"'{path}' is a folder; give the path of a file, such as {example}.")
    if stat.S_ISLNK(mode):  # still one after resolving
        raise _refusal(path, "its symbolic links lead in a circle")
    if not stat.S_ISREG(mode):
        raise _refusal(path, f"it is {_kind(mode)}, and only a regular file is replaced")
    # Renaming over a file asks for no permission on the file itself, so it is asked for here; the
    # bits are read as well, since to root every file seems writable.
    if not (mode & ANYONE_MAY_WRITE and os.access(target, os.W_OK)):
        raise _refusal(path, "the file there is read-only, and is kept")


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _temporary_file(folder: Path) -> Path:
    """A new, empty file; its name is short, since that of the target may be as long as allowed."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=TEMPORARY_PREFIX)
    os.close(descriptor)
    return Path(name)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _refusal(path: Path, why: str) -> RegardError:
    return RegardError(f"'{path}' cannot be written: {why}. Choose another place.")
