"""Which columns hold the text and the label: what is not told follows, and they are never the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.readers.labelled import LabelledSource
from regard.data.readers.text_file import BadRows

REVIEWS = "review,sentiment\nA fine film.,good\nA poor film.,bad\n"


def first(path: Path, **options: Any) -> tuple[str, str]:
    row = next(LabelledSource(path=path, **options).rows(bad=BadRows()))
    return row.text, row.label


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize(
    "options",
    [
        {"text_column": "review"},
        {"label_column": "sentiment"},
        {"text_column": "review", "label_column": "sentiment"},
        {"text_column": "review", "label_column": 1},
        {"text_column": 0, "header": True},
        {"label_column": 1, "header": True},
    ],
)
def test_of_two_columns_the_other_is_the_other(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    text = REVIEWS if name == "a.csv" else REVIEWS.replace(",", "\t")
    assert first(written(tmp_path, name, text), **options) == ("A fine film.", "good")


def test_of_many_columns_the_usual_one_is_taken_only_beside_a_number(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "good,7,A fine film.\n")
    assert first(path, text_column=2) == ("A fine film.", "good")
    path = written(tmp_path, "b.csv", "id,review,sentiment\n1,A fine film.,good\n")
    with pytest.raises(
        RegardError, match=r"3 columns, and which one holds the label.*--target-column: id, sentim"
    ):
        first(path, text_column="review")
    with pytest.raises(
        RegardError, match=r"holds the text is not said.*--source-column: id, review"
    ):
        first(path, label_column="sentiment")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.csv", {"text_column": 1, "label_column": 1}),
        ("a.csv", {"text_column": "review", "label_column": "review"}),
        ("a.csv", {"text_column": "review", "label_column": 0}),
        ("a.jsonl", {"text_column": "label"}),
    ],
)
def test_one_column_cannot_be_both(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    path = written(tmp_path, name, REVIEWS)
    with pytest.raises(RegardError, match=r"both read from column .*--source-column for the text"):
        first(path, **options)


def test_a_header_that_cannot_be_read_is_told_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"review,\xff\nA fine film.,good\n")
    with pytest.raises(RegardError, match=r"a\.csv:1: not UTF-8"):
        first(path, text_column="review")
