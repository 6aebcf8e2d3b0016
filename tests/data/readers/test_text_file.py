"""Row errors: raised, or counted and listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.data.readers.text_file import RowErrors


def test_without_skip_the_first_error_raises() -> None:
    with pytest.raises(RegardError) as raised:
        RowErrors().report(path=Path("a.tsv"), line=7, reason="empty source")
    assert str(raised.value) == (
        "a.tsv:7: empty source. Fix the line, or skip such rows with --skip-bad-rows."
    )


def test_with_skip_all_are_counted_and_the_first_thousand_listed() -> None:
    errors = RowErrors(skip=True)
    for line in range(1, 1501):
        errors.report(path=Path("a.tsv"), line=line, reason=f"not UTF-8: byte {line}")
    errors.report(path=Path("a.tsv"), line=2000, reason="empty source")
    assert errors.count == 1501
    assert len(errors.rows) == 1000
    assert errors.as_json()["by_reason"] == {"empty source": 1, "not UTF-8": 1500}
    assert errors.summary(examples=2).splitlines() == [
        "1,501 bad rows skipped",
        "  1,500 × not UTF-8",
        "  1 × empty source",
        "  a.tsv:1: not UTF-8: byte 1",
        "  a.tsv:2: not UTF-8: byte 2",
        "  … and 1,499 more",
    ]


def test_summary_without_errors() -> None:
    assert RowErrors(skip=True).summary() == "no bad rows"
