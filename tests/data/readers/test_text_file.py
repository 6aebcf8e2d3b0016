"""Counting and listing rows that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows


def test_without_skip_the_first_is_an_error() -> None:
    with pytest.raises(RegardError) as stopped:
        BadRows().report(path=Path("a.tsv"), line=7, reason="empty source")
    assert str(stopped.value) == (
        "a.tsv:7: empty source. Fix the line, or leave such rows out with --skip-bad-rows."
    )


def test_with_skip_all_are_counted_and_the_first_thousand_kept() -> None:
    bad = BadRows(skip=True)
    for line in range(1, 1501):
        bad.report(path=Path("a.tsv"), line=line, reason=f"not UTF-8: byte {line}")
    bad.report(path=Path("a.tsv"), line=2000, reason="empty source")
    assert bad.count == 1501
    assert len(bad.rows) == 1000
    assert bad.as_json()["by_reason"] == {"empty source": 1, "not UTF-8": 1500}
    assert bad.summary(examples=2).splitlines() == [
        "1,501 bad rows left out",
        "  1,500 × not UTF-8",
        "  1 × empty source",
        "  a.tsv:1: not UTF-8: byte 1",
        "  a.tsv:2: not UTF-8: byte 2",
        "  … and 1,499 more",
    ]


def test_none_is_said_too() -> None:
    assert BadRows(skip=True).summary() == "no bad rows"
