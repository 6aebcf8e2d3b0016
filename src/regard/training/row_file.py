"""A file of JSON rows that can be cut back to what it was at a checkpoint.

A row is handed to the system as soon as it is written, so that it can be followed while the run goes
on; it is on the disk for certain once `length` was asked for.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError


class RowFile:
    """Rows are added at the end; `kept` bytes stay of what is there, all others are cut off."""

    def __init__(self, path: Path, *, kept: int) -> None:
        """Open the file, or make it."""
        self.path = path
        try:
            there = path.stat().st_size if path.exists() else 0
            if there < kept:
                raise RegardError(
                    f"'{path}' has {there} bytes and had {kept} when the checkpoint beside it was "
                    "written, so rows are lost. Put the file back, or train anew in another folder."
                )
            self._file = path.open("ab")
            self._file.truncate(kept)
        except OSError as error:
            raise RegardError(f"'{path}' cannot be written: {error.strerror or error}.") from error

    def __enter__(self) -> Self:
        """For `with`: closed at the end."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self._file.close()

    def add(self, row: dict[str, Any]) -> None:
        """Write one row; what is no number is written as null, for JSON has no word for it."""
        text = json.dumps({key: _number(value) for key, value in row.items()}, allow_nan=False)
        self._file.write(text.encode() + b"\n")
        self._file.flush()

    def length(self) -> int:
        """How many bytes the file has, all of them on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _number(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
