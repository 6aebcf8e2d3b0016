"""A header that was not announced is told from a row; a rare label in the first row is no header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.readers.labelled import LabelledRow, LabelledSource
from regard.data.readers.text_file import BadRows

COMMON = [("good", "A fine film."), ("bad", "A poor film.")] * 5


def rows_of(
    folder: Path, *first: tuple[str, str], others: list[tuple[str, str]], **options: Any
) -> list[LabelledRow]:
    path = folder / "reviews.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in [*first, *others]))
    return list(LabelledSource(path=path, **options).rows(bad=BadRows(skip=True)))


@pytest.mark.parametrize("names", [("label", "text"), ("Class", "Sentence"), ("y", "review_text")])
def test_names_that_columns_often_have_are_told_at_once(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    label, text = names
    words = rf"seems to name the columns \('{label}', '{text}'\).* Give --header, or name the col"
    with pytest.raises(RegardError, match=words) as refused:
        rows_of(tmp_path, names, others=COMMON[:1])
    assert f"--source-column {text} --target-column {label}" in str(refused.value)
    assert len(rows_of(tmp_path, names, others=COMMON, header=True)) == 10
    assert len(rows_of(tmp_path, names, others=COMMON, text_column=text, label_column=label)) == 10


def test_columns_the_other_way_round_are_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"--source-column review --target-column sentiment\. If"):
        rows_of(tmp_path, ("review", "sentiment"), others=[("A fine film.", "good")])


def test_other_names_are_told_by_what_follows(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"--source-column 'What was said' --target-column Mood"):
        rows_of(tmp_path, ("Mood", "What was said"), others=COMMON)
    with pytest.raises(RegardError, match=r"(so ){20}…'\)[^.]*text\. Give --header\. If it"):
        rows_of(tmp_path, ("sentiment", "so " * 99), others=COMMON)
    with pytest.raises(RegardError, match="If it is one, move it below the next row"):
        rows_of(tmp_path, ("sentiment", "what people said of it, word by word"), others=COMMON)


@pytest.mark.parametrize(
    ("first", "others"),
    [
        # The label is rare in truth, and its text is one.
        (("mixed", "Fine, but long."), COMMON),
        (("mixed", "A film that is fine and poor in turns"), COMMON),
        # Other labels are rare too.
        (("mixed", "fine and poor"), [*COMMON, ("odd", "A strange film.")]),
        # It comes again.
        (("mixed", "fine and poor"), [*COMMON, ("mixed", "So so.")]),
        # A name in one of the columns only.
        (("topic", "chess"), [*COMMON, ("topic", "rowing")]),
        (("good", "text"), COMMON),
        # Nothing to compare with.
        (("mixed", "fine and poor"), []),
    ],
)
def test_honest_first_rows_are_kept(
    tmp_path: Path, first: tuple[str, str], others: list[tuple[str, str]]
) -> None:
    assert len(rows_of(tmp_path, first, others=others)) == 1 + len(others)


def test_a_row_that_is_not_the_first_is_no_header(tmp_path: Path) -> None:
    assert len(rows_of(tmp_path, COMMON[0], ("Mood", "text"), others=COMMON)) == 12


def test_formats_without_headers_are_not_suspected(tmp_path: Path) -> None:
    path = tmp_path / "reviews.all"
    path.write_text("label text\ngood Fine.\n")
    assert len(list(LabelledSource(path=path).rows(bad=BadRows()))) == 2


@pytest.mark.data
@pytest.mark.parametrize("name", ["train.tsv.gz", "test.tsv.gz"])
def test_real_files_are_not_suspected(data_folder: Path, name: str) -> None:
    source = LabelledSource(path=data_folder / "imdb" / name, text_column=3, label_column=0)
    assert sum(1 for _ in source.rows(bad=BadRows(skip=True))) > 10_000
