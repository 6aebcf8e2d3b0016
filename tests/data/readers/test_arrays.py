"""Arrays in .npz files: rows, row errors, invalid files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.data.readers.arrays import ArrayReader
from regard.data.readers.text_file import RowErrors


def test_rows_and_row_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    values[3, 1] = np.nan
    np.savez(path, values=values, lengths=np.array([2, 0, 1, 1]), labels=np.array([3, 1, 2, 2]))
    errors = RowErrors(skip=True)
    rows = list(ArrayReader(path=path).rows(errors=errors))
    assert [(row.input.tolist(), row.target, row.line) for row in rows] == [
        ([[0.0, 1.0], [2.0, 3.0]], "3", 1),
        ([[4.0, 5.0]], "2", 3),
    ]
    assert errors.by_reason == {"empty sequence": 1, "frames that are not finite": 1}
    with pytest.raises(RegardError, match=r"a\.npz:2: empty sequence"):
        list(ArrayReader(path=path).rows(errors=RowErrors()))


def test_invalid_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(RegardError, match="no file"):
        ArrayReader(path=path).rows(errors=RowErrors())
    path.write_text("not an archive")
    with pytest.raises(RegardError, match="not a readable"):
        ArrayReader(path=path).rows(errors=RowErrors())
    np.savez(path, values=np.zeros((2, 2)), lengths=np.array([2]))
    with pytest.raises(RegardError, match="no array 'labels'"):
        ArrayReader(path=path).rows(errors=RowErrors())
    np.savez(path, values=np.zeros((2, 2)), lengths=np.array([1]), labels=np.array([1]))
    with pytest.raises(RegardError, match="do not match"):
        list(ArrayReader(path=path).rows(errors=RowErrors()))
