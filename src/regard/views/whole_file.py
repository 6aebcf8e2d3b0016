"""Writing a file so that whoever reads it finds the old text or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from regard.core.errors import RegardError


def require_writable(path: Path) -> None:
    """Refuse a path where no file can be written, so that it is known before the work is done."""
    if path.is_dir():
        example = path / "demo.html"
        raise RegardError(f"'{path}' is a folder; give the path of a file, such as {example}.")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not nearest.is_dir():
        raise _refusal(path, f"'{nearest}' is not a folder")
    if not os.access(nearest, os.W_OK):
        raise _refusal(path, f"you may not write in '{nearest}'")


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path`, whose folder is made if it is not there."""
    require_writable(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, since a file can only be renamed within one file system.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp lets nobody else read; a page is for showing around.
        temporary.chmod(0o644)
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _refusal(path: Path, why: str) -> RegardError:
    return RegardError(f"'{path}' cannot be written: {why}. Choose another place with --out.")
