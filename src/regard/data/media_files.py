"""Files of recordings and images: how one is opened, and the error of one that cannot be used."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import ClassVar

from regard.core.errors import RegardError

MAX_CHECKED_FILES = 1 << 16


@dataclass(frozen=True)
class MediaBytes:
    """The content of a file that is on no disk, such as an upload, in place of a path."""

    name: str
    content: bytes = field(repr=False)

    def __str__(self) -> str:
        return self.name


MediaPath = Path | MediaBytes


class MediaFileError(RegardError):
    """A file that cannot be used: its path, the kind of error, details and the way out."""

    what: ClassVar[str] = "a file"

    def __init__(self, path: MediaPath, kind: str, details: str, *, way_out: str) -> None:
        super().__init__(f"'{path}': {kind}: {details}. {way_out}.")
        self.kind = kind
        self.details = details
        self.way_out = way_out


def file_stamp(path: Path) -> tuple[int, int, int]:
    """What changes with the content of a file: inode, size, time of modification."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def opened(path: MediaPath, error_class: type[MediaFileError]) -> Iterator[BufferedIOBase]:
    """A regular file, opened for reading; every error is of the given class."""
    try:
        if isinstance(path, MediaBytes):
            yield BytesIO(path.content)
            return
        if not stat.S_ISREG(path.stat().st_mode):  # to open a named pipe would block
            kind = "a folder" if path.is_dir() else "no regular file"
            raise error_class(
                path, f"not {error_class.what}", f"it is {kind}", way_out="Name a file"
            )
        with path.open("rb") as file:
            yield file
    except RegardError:
        raise
    except FileNotFoundError as error:
        raise error_class(
            path, "missing file", "there is no such file", way_out="Check the path"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        details = getattr(error, "strerror", None) or str(error)
        raise error_class(
            path, "unreadable file", details, way_out="Check its name and permissions"
        ) from error
