"""Labelled texts: formats, row errors, default columns, header detection, cp1252 repair."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regard.core.errors import RegardError
from regard.data.readers.text_file import Row, RowErrors
from regard.data.readers.text_reader import TextReader, repair_cp1252

ROWS = [("What is an atom ?", "0"), ("Who was Galileo ?", "3")]


def read(path: Path, errors: RowErrors | None = None, **options: Any) -> list[Row]:
    return list(TextReader(path=path, target="label", **options).rows(errors=errors or RowErrors()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("questions.all", "0 What is an atom ?\n3 Who was Galileo ?\n"),
        ("questions.tsv", "0\tWhat is an atom ?\n3\tWho was Galileo ?\n"),
        ("questions.csv", '0,What is an atom ?\n"3","Who was Galileo ?"\n'),
        (
            "questions.jsonl",
            '{"text": "What is an atom ?", "label": "0"}\n'
            '{"label": "3", "text": "Who was Galileo ?"}\n',
        ),
    ],
)
def test_all_formats_yield_the_same_rows(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(text.encode()))
    found = read(path)
    assert [row[:2] for row in found] == ROWS
    assert [row.line for row in found] == [1, 2]


def test_columns_by_index_and_by_name(tmp_path: Path) -> None:
    path = tmp_path / "reviews.tsv"
    path.write_text("pos\t17\t9\tA fine film.\n")
    assert read(path, source_column=3) == [Row("A fine film.", "pos", 1)]
    path.write_text("id\ttext\tverdict\n1\tFine.\tpos\n")
    assert read(path, source_column="text", target_column="verdict") == [("Fine.", "pos", 2)]
    assert read(path, source_column=1, target_column=2, header=True) == [("Fine.", "pos", 2)]
    lists = tmp_path / "lists.jsonl"
    lists.write_text('["Fine.", "pos"]\n')
    assert read(lists, source_column=0, target_column=1) == [("Fine.", "pos", 1)]


def test_explicit_format(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("0 What is\tan atom ?\n")
    assert read(path, format="labelled") == [("What is\tan atom ?", "0", 1)]
    with pytest.raises(RegardError, match=r"Unknown format 'labeled'\. Did you mean 'labelled'"):
        read(path, format="labeled")


def test_row_errors_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "questions"
    path.write_text("0 fine\n1\n text\n2 a\x00b\n4 \n3 also fine\n")
    errors = RowErrors(skip=True)
    assert [row.input for row in read(path, errors)] == ["fine", "also fine"]
    assert errors.by_reason == {"empty text": 2, "empty label": 1, "NUL character": 1}
    with pytest.raises(RegardError, match="questions:2: empty text"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text"), [("a.jsonl", '{"text": "a"}\n'), ("a.tsv", "one column\n")]
)
def test_hints_name_the_columns_of_text_and_label(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(RegardError, match=r"--source-column \(the text\) and --target-column"):
        read(path)


def test_file_without_a_valid_row(tmp_path: Path) -> None:
    path = tmp_path / "questions"
    path.write_text("alone\n")
    with pytest.raises(RegardError, match=r"questions' .*--target-column"):
        read(path, RowErrors(skip=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source_column": -1}, "Column -1"),
        ({"source_column": 1}, "format 'labelled' has no columns"),
        ({"header": True}, "Format 'labelled' has no header"),
    ],
)
def test_invalid_options(options: dict, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        TextReader(target="label", path=Path("questions.all.gz"), **options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "good,Fine.\n\nbad,Poor.\n\n"),
        ("a.csv", "good,Fine.\n  \nbad,Poor.\n\r\n"),
        ("a.tsv", "good\tFine.\n\nbad\tPoor.\n\n"),
        ("a.jsonl", '["good", "Fine."]\n\n["bad", "Poor."]\n\n'),
        ("a.all", "good Fine.\n\nbad Poor.\n\n"),
    ],
)
def test_blank_lines_are_skipped(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    columns: dict[str, Any] = {"source_column": 1, "target_column": 0} if name == "a.jsonl" else {}
    assert read(path, **columns) == [("Fine.", "good", 1), ("Poor.", "bad", 3)]


def test_json_labels_may_be_integers_and_booleans(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"label": 1, "text": "a"}\n{"label": true, "text": "b"}\n["c", -7]\n')
    errors = RowErrors(skip=True)
    assert [row.target for row in read(path, errors)] == ["1", "true"]
    assert errors.count == 1
    assert read(path, errors, source_column=0, target_column=1)[0].target == "-7"
    path.write_text('{"label": 1.5, "text": "a"}\n')
    with pytest.raises(RegardError, match="'label' is float"):
        read(path)
    path.write_text('{"label": "a", "text": 1}\n')
    with pytest.raises(RegardError, match="column 'text' is int"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"label": "good", "text": "one\\r\\ntwo"}\n'),
        ("a.csv", 'good,"one\r\ntwo"\r\n'),
    ],
)
def test_newlines_within_a_text_are_normalised(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert read(path) == [("one\ntwo", "good", 1)]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.all"])
def test_long_line_error_names_the_option(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    row = {"a.jsonl": '{{"label": "good", "text": "{}"}}\n', "a.csv": "good,{}\n"}
    path.write_text(
        row.get(name, "good {}\n" if name == "a.all" else "good\t{}\n").format("x" * 99)
    )
    with pytest.raises(RegardError, match=r"line too long.* task\.max_line_bytes"):
        read(path, max_line_bytes=50)
    assert len(read(path, max_line_bytes=200)[0].input) == 99


def test_long_quoted_field(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = "\n".join(["x" * 1000] * 1500)
    path.write_text(f'good,"{lines}"\n')
    with pytest.raises(RegardError, match=r"field limit.* task\.max_line_bytes"):
        read(path)
    assert len(read(path, max_line_bytes=2_000_000)[0].input) == len(lines)
    with pytest.raises(RegardError, match="field limit"):  # the limit is per file
        read(path)


REVIEWS = "review,sentiment\nA fine film.,good\nA poor film.,bad\n"


def first(path: Path, **options: Any) -> tuple[str, str]:
    row = next(TextReader(path=path, target="label", **options).rows(errors=RowErrors()))
    return row.input, row.target


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize(
    "options",
    [
        {"source_column": "review"},
        {"target_column": "sentiment"},
        {"source_column": "review", "target_column": "sentiment"},
        {"source_column": "review", "target_column": 1},
        {"source_column": 0, "header": True},
        {"target_column": 1, "header": True},
    ],
)
def test_with_two_columns_the_other_one_is_inferred(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    text = REVIEWS if name == "a.csv" else REVIEWS.replace(",", "\t")
    assert first(written(tmp_path, name, text), **options) == ("A fine film.", "good")


def test_default_column_beside_an_index(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "good,7,A fine film.\n")
    assert first(path, source_column=2) == ("A fine film.", "good")
    path = written(tmp_path, "b.csv", "id,review,sentiment\n1,A fine film.,good\n")
    with pytest.raises(RegardError, match=r"3 columns: .*--target-column: id, sentiment"):
        first(path, source_column="review")
    with pytest.raises(RegardError, match=r"3 columns: .*--source-column: id, review"):
        first(path, target_column="sentiment")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.csv", {"source_column": 1, "target_column": 1}),
        ("a.csv", {"source_column": "review", "target_column": "review"}),
        ("a.csv", {"source_column": "review", "target_column": 0}),
        ("a.jsonl", {"source_column": "label"}),
    ],
)
def test_text_and_label_in_one_column(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    path = written(tmp_path, name, REVIEWS)
    with pytest.raises(RegardError, match=r"both read from column .*--source-column"):
        first(path, **options)


def test_invalid_header_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"review,\xff\nA fine film.,good\n")
    with pytest.raises(RegardError, match=r"a\.csv:1: not UTF-8"):
        first(path, source_column="review")


COMMON = [("good", "A fine film."), ("bad", "A poor film.")] * 5


def rows_of(
    folder: Path, *first: tuple[str, str], others: list[tuple[str, str]], **options: Any
) -> list[Row]:
    path = folder / "reviews.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in [*first, *others]))
    return list(TextReader(path=path, target="label", **options).rows(errors=RowErrors(skip=True)))


@pytest.mark.parametrize("names", [("label", "text"), ("Class", "Sentence"), ("y", "review_text")])
def test_common_column_names_are_a_header(tmp_path: Path, names: tuple[str, str]) -> None:
    label, text = names
    with pytest.raises(RegardError, match=rf"\('{label}', '{text}'\).* --header") as raised:
        rows_of(tmp_path, names, others=COMMON[:1])
    assert f"--source-column {text} --target-column {label}" in str(raised.value)
    assert len(rows_of(tmp_path, names, others=COMMON, header=True)) == 10
    assert (
        len(rows_of(tmp_path, names, others=COMMON, source_column=text, target_column=label)) == 10
    )


def test_swapped_header(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="--source-column review --target-column sentiment"):
        rows_of(tmp_path, ("review", "sentiment"), others=[("A fine film.", "good")])


def test_header_detection_by_label_counts(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"--source-column 'What was said' --target-column Mood"):
        rows_of(tmp_path, ("Mood", "What was said"), others=COMMON)
    with pytest.raises(RegardError, match=r"(so ){20}…'\).* --header\."):
        rows_of(tmp_path, ("sentiment", "so " * 99), others=COMMON)
    with pytest.raises(RegardError, match="sentiment"):
        rows_of(tmp_path, ("sentiment", "what people said of it, word by word"), others=COMMON)


@pytest.mark.parametrize(
    ("first", "others"),
    [
        # A rare label with a sentence as its text.
        (("mixed", "Fine, but long."), COMMON),
        (("mixed", "A film that is fine and poor in turns"), COMMON),
        # Other labels are rare too.
        (("mixed", "fine and poor"), [*COMMON, ("odd", "A strange film.")]),
        # The label occurs again.
        (("mixed", "fine and poor"), [*COMMON, ("mixed", "So so.")]),
        # A column name in one of the columns only.
        (("topic", "chess"), [*COMMON, ("topic", "rowing")]),
        (("good", "text"), COMMON),
        # Nothing to compare with.
        (("mixed", "fine and poor"), []),
    ],
)
def test_first_rows_that_are_not_headers(
    tmp_path: Path, first: tuple[str, str], others: list[tuple[str, str]]
) -> None:
    assert len(rows_of(tmp_path, first, others=others)) == 1 + len(others)


def test_only_the_first_row_can_be_a_header(tmp_path: Path) -> None:
    assert len(rows_of(tmp_path, COMMON[0], ("Mood", "text"), others=COMMON)) == 12


def test_no_header_detection_for_formats_without_header(tmp_path: Path) -> None:
    path = tmp_path / "reviews.all"
    path.write_text("label text\ngood Fine.\n")
    assert len(list(TextReader(target="label", path=path).rows(errors=RowErrors()))) == 2


@pytest.mark.data
@pytest.mark.parametrize("name", ["train.tsv.gz", "test.tsv.gz"])
def test_imdb_files_have_no_header(data_folder: Path, name: str) -> None:
    source = TextReader(
        target="label", path=data_folder / "imdb" / name, source_column=3, target_column=0
    )
    assert sum(1 for _ in source.rows(errors=RowErrors(skip=True))) > 10_000


def test_cp1252_repair() -> None:
    assert repair_cp1252("\x93so\x94 \x96 it\x92s\x85") == "“so” – it’s…"


def test_cp1252_repair_replaces_other_control_characters_by_spaces() -> None:
    assert repair_cp1252("a\x08b\x81c\x7fd") == "a b c d"


def test_cp1252_repair_keeps_newlines_tabs_and_nul() -> None:
    assert repair_cp1252("a\tb\r\nc\0") == "a\tb\r\nc\0"


@given(st.text())
def test_cp1252_repair_changes_control_characters_only(text: str) -> None:
    changed = repair_cp1252(text)
    assert len(changed) == len(text)
    for before, after in zip(text, changed, strict=True):
        assert before == after or ord(before) < 0x20 or 0x7F <= ord(before) < 0xA0


@pytest.mark.data
def test_trec_questions(data_folder: Path) -> None:
    errors = RowErrors(skip=True)
    rows = read(data_folder / "sentences" / "TREC.train.all.gz", errors)
    assert len(rows) == 5451
    assert errors.by_reason == {"not UTF-8": 1}
    assert {row.target for row in rows} == set("012345")
