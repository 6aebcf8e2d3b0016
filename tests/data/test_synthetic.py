"""Drawn rows: the same every time, of the lengths that were asked for, and of no others."""

from __future__ import annotations

from collections import Counter

import pytest

from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows
from regard.data.synthetic import (
    Brackets,
    Copying,
    DrawnLabels,
    DrawnPairs,
    Parity,
    Rule,
    length_range,
)


def labels(
    rule: Rule, shortest: int, longest: int, *, count: int = 300, seed: int = 0
) -> DrawnLabels:
    return DrawnLabels(rule=rule, shortest=shortest, longest=longest, count=count, seed=seed)


def test_rows_are_a_function_of_what_was_asked_for() -> None:
    source = labels(Parity(), 3, 6)
    rows = list(source.rows(bad=BadRows()))
    assert (
        rows == list(source.rows(bad=BadRows())) == list(labels(Parity(), 3, 6).rows(bad=BadRows()))
    )
    assert rows != list(labels(Parity(), 3, 6, seed=1).rows(bad=BadRows()))
    assert [row.line for row in rows] == list(range(1, 301))
    assert set(Counter(len(row.text) for row in rows)) == {3, 4, 5, 6}


def test_lengths_keep_to_the_steps_of_the_rule() -> None:
    assert list(labels(Brackets(), 3, 9).lengths) == [4, 6, 8]
    assert list(labels(Brackets(), 1, 3).lengths) == [2]
    assert list(labels(Parity(), 2, 4).lengths) == [2, 3, 4]


def test_pairs_are_drawn_too() -> None:
    rows = list(
        DrawnPairs(rule=Copying(backwards=True), shortest=3, longest=3, count=5, seed=0).rows(
            bad=BadRows()
        )
    )
    assert [row.target for row in rows] == [row.source[::-1] for row in rows]


def test_a_range_is_read_and_anything_else_is_a_file() -> None:
    assert length_range("41-80") == (41, 80)
    assert length_range("7") == (7, 7)
    assert length_range("part-2.tsv") is None
    assert length_range("-3") is None


def test_ranges_without_strings_are_refused() -> None:
    with pytest.raises(
        RegardError, match=r"no strings of 'brackets' with lengths from 3 to 3: .* steps of 2"
    ):
        labels(Brackets(), 3, 3)
    with pytest.raises(RegardError, match="count=0: draw 1 string or more"):
        labels(Parity(), 1, 3, count=0)
