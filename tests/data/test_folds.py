"""Stratified folds: sizes, duplicates, order, row errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.data.datasets.digits import digits
from regard.data.folds import Folds
from regard.data.images.preprocessor import ImagePreprocessor
from regard.data.readers.text_file import GeneratedRows, Row, RowErrors


def key(value: np.ndarray) -> str:
    return ImagePreprocessor.key(None, value)


def test_folds_are_a_stratified_partition() -> None:
    folds = Folds(digits(), key, 5)
    tests = [list(folds.split(fold)[1].rows(errors=RowErrors())) for fold in range(5)]
    assert sorted(row.line for rows in tests for row in rows) == list(range(1, 1798))
    assert [len(rows) for rows in tests] == [360, 360, 359, 359, 359]
    by_label = [Counter(row.target for row in rows) for rows in tests]
    for label in map(str, range(10)):
        counts = [each[label] for each in by_label]
        assert max(counts) - min(counts) <= 1
    train = list(folds.split(0)[0].rows(errors=RowErrors()))
    assert {row.line for row in train} == {row.line for rows in tests[1:] for row in rows}


def test_folds_do_not_depend_on_the_order_and_keep_duplicates_together() -> None:
    rows = [Row(f"text {number % 15}", str(number % 3), number + 1) for number in range(30)]

    def folds(rows: list[Row]) -> dict[str, int]:
        reader = GeneratedRows(path=Path("rows"), generate=lambda: rows)
        found = Folds(reader, str, 3)
        return {row.input: found.fold_of(row.input) for row in rows}

    assert folds(rows) == folds(rows[::-1])
    assert Counter(folds(rows).values()) == {0: 5, 1: 5, 2: 5}
    with pytest.raises(RegardError, match=r"num_folds=3: 'rows' has 1 different inputs"):
        folds(rows[:1])
