"""Labelled texts from every format; bad rows are named, never dropped in silence."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.readers.labelled import LabelledRow, LabelledSource
from regard.data.readers.text_file import BadRows

ROWS = [("What is an atom ?", "0"), ("Who was Galileo ?", "3")]


def read(path: Path, bad: BadRows | None = None, **options: Any) -> list[LabelledRow]:
    return list(LabelledSource(path=path, **options).rows(bad=bad or BadRows()))


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
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(text.encode()))
    found = read(path)
    assert [row[:2] for row in found] == ROWS
    assert [row.line for row in found] == [1, 2]


def test_columns_by_number_and_by_name(tmp_path: Path) -> None:
    path = tmp_path / "reviews.tsv"
    path.write_text("pos\t17\t9\tA fine film.\n")
    assert read(path, text_column=3) == [LabelledRow("A fine film.", "pos", 1)]
    path.write_text("id\ttext\tverdict\n1\tFine.\tpos\n")
    assert read(path, text_column="text", label_column="verdict") == [("Fine.", "pos", 2)]
    assert read(path, text_column=1, label_column=2, header=True) == [("Fine.", "pos", 2)]
    lists = tmp_path / "lists.jsonl"
    lists.write_text('["Fine.", "pos"]\n')
    assert read(lists, text_column=0, label_column=1) == [("Fine.", "pos", 1)]


def test_a_format_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("0 What is\tan atom ?\n")
    assert read(path, format="labelled") == [("What is\tan atom ?", "0", 1)]
    with pytest.raises(RegardError, match=r"Unknown format 'labeled'\. Did you mean 'labelled'"):
        read(path, format="labeled")


def test_bad_rows_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "questions"
    path.write_text("0 fine\n1\n text\n2 a\x00b\n4 \n3 also fine\n")
    bad = BadRows(skip=True)
    assert [row.text for row in read(path, bad)] == ["fine", "also fine"]
    assert bad.by_reason == {"empty text": 2, "empty label": 1, "NUL character": 1}
    with pytest.raises(RegardError, match=r"questions:2: empty text\. Fix the line, or leave such"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text"), [("a.jsonl", '{"text": "a"}\n'), ("a.tsv", "one column\n")]
)
def test_advice_is_about_texts_and_labels(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(RegardError, match=r"--source-column \(the text\) and --target-column"):
        read(path)


def test_nothing_usable_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "questions"
    path.write_text("alone\n")
    with pytest.raises(RegardError, match=r"No row of '.*' can be used \(1 bad\).*--target-column"):
        read(path, BadRows(skip=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_column": -1}, "Column -1: columns are counted from 0"),
        ({"text_column": 1}, "format 'labelled' has no columns"),
        ({"header": True}, "Format 'labelled' has no header"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        LabelledSource(path=Path("questions.all.gz"), **options)


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
def test_blank_lines_are_no_rows(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    columns: dict[str, Any] = {"text_column": 1, "label_column": 0} if name == "a.jsonl" else {}
    assert read(path, **columns) == [("Fine.", "good", 1), ("Poor.", "bad", 3)]


def test_labels_of_json_may_be_whole_numbers_and_truth_values(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"label": 1, "text": "a"}\n{"label": true, "text": "b"}\n["c", -7]\n')
    bad = BadRows(skip=True)
    assert [row.label for row in read(path, bad)] == ["1", "true"]
    assert bad.count == 1
    assert read(path, bad, text_column=0, label_column=1)[0].label == "-7"
    path.write_text('{"label": 1.5, "text": "a"}\n')
    with pytest.raises(RegardError, match=r"'label' is float\. Write it as a text or a whole"):
        read(path)
    path.write_text('{"label": "a", "text": 1}\n')
    with pytest.raises(RegardError, match="value not a text: column 'text' is int"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"label": "good", "text": "one\\r\\ntwo"}\n'),
        ("a.csv", 'good,"one\r\ntwo"\r\n'),
    ],
)
def test_lines_within_a_text_end_alike_in_every_format(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert read(path) == [("one\ntwo", "good", 1)]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.all"])
def test_a_long_line_names_the_option_that_raises_the_limit(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    row = {"a.jsonl": '{{"label": "good", "text": "{}"}}\n', "a.csv": "good,{}\n"}
    path.write_text(
        row.get(name, "good {}\n" if name == "a.all" else "good\t{}\n").format("x" * 99)
    )
    with pytest.raises(RegardError, match=r"line too long.* Raise task\.max_line_bytes \(of pred"):
        read(path, max_line_bytes=50)
    assert len(read(path, max_line_bytes=200)[0].text) == 99


def test_a_text_over_several_lines_that_is_too_long_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = "\n".join(["x" * 1000] * 1500)
    path.write_text(f'good,"{lines}"\n')
    with pytest.raises(RegardError, match=r"field limit.*; else raise task\.max_line_bytes"):
        read(path)
    assert len(read(path, max_line_bytes=2_000_000)[0].text) == len(lines)
    with pytest.raises(
        RegardError, match="field limit"
    ):  # what was raised for one file is for that alone
        read(path)


@pytest.mark.data
def test_the_question_set(data_folder: Path) -> None:
    bad = BadRows(skip=True)
    rows = read(data_folder / "sentences" / "TREC.train.all.gz", bad)
    assert len(rows) == 5451
    assert bad.by_reason == {"not UTF-8": 1}
    assert {row.label for row in rows} == set("012345")
