"""Columns of a file: several for one input, unused ones, and errors that list them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.readers.text_file import RowErrors
from regard.data.readers.text_reader import TextReader

TABLE = "lemma\tform\ttags\nrun\tran\tV;PST\ngive up\tgave up\tV;PST\n"
JSON = '{"lemma": "run", "form": "ran", "tags": "V;PST"}\n'


def reader(folder: Path, name: str, content: str, **options: Any) -> TextReader:
    (folder / name).write_text(content, encoding="utf-8")
    return TextReader.from_text(str(folder / name), **options)


def pairs(reader: TextReader, *, skip: bool = False) -> list[tuple[str, str]]:
    return [(row.input, row.target) for row in reader.rows(errors=RowErrors(skip=skip))]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.tsv", TABLE, {"source_column": "lemma,tags", "target_column": "form"}),
        ("a.tsv", TABLE, {"source_column": "lemma, tags"}),  # the target is the only other column
        ("a.tsv", TABLE, {"source_column": "0,2", "target_column": "1", "header": True}),
        ("a.tsv", TABLE.partition("\n")[2], {"source_column": "0,2"}),
        ("a.csv", TABLE.replace("\t", ","), {"source_column": "lemma,2", "target_column": "form"}),
        ("a.jsonl", JSON, {"source_column": "lemma,tags", "target_column": "form"}),
    ],
)
def test_several_columns_make_one_source(
    tmp_path: Path, name: str, content: str, options: dict[str, Any]
) -> None:
    assert pairs(reader(tmp_path, name, content, **options))[0] == ("run\tV;PST", "ran")


def test_columns_of_a_text_are_joined_by_a_space(tmp_path: Path) -> None:
    content = "title,body,label\nGood, fine film ,pos\n,bad,neg\n"
    columns = {"source_column": "title,body", "target_column": "label", "target": "label"}
    found = pairs(reader(tmp_path, "a.csv", content, **columns))
    assert found == [("Good fine film", "pos"), ("bad", "neg")]


def test_a_name_with_a_comma_is_one_column(tmp_path: Path) -> None:
    table = 'a,"b,c"\nx,y\n'
    assert pairs(reader(tmp_path, "a.csv", table, source_column="b,c")) == [("y", "x")]
    own = {"source_column": "b,c", "target_column": "a"}
    assert pairs(reader(tmp_path, "a.jsonl", '{"a": "x", "b,c": "y"}', **own)) == [("y", "x")]


def test_unused_columns_are_mentioned(tmp_path: Path) -> None:
    named = reader(tmp_path, "a.tsv", TABLE, source_column="lemma", target_column="form")
    assert named.notice == "Columns: lemma, form, tags (not used)."
    assert reader(tmp_path, "a.tsv", "a\tb\tc\n").notice == "Columns: 0, 1, 2 (not used)."
    keys = reader(tmp_path, "a.jsonl", JSON, source_column="lemma", target_column="tags")
    assert keys.notice == "Columns: lemma, form (not used), tags."
    assert reader(tmp_path, "a.tsv", TABLE, source_column="lemma,tags").notice == ""
    plain = '{"source": "a", "target": "b", "id": 1}'
    assert reader(tmp_path, "a.jsonl", plain).notice == "Columns: source, target, id (not used)."
    assert reader(tmp_path, "a.dict", "run R AH N\n").notice == ""


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "a.tsv",
            {"source_column": "word"},
            r"--source-column word: .*a\.tsv' has no column 'word'; .* 0 \(lemma\), 1 \(form\), 2 \(tags\)",
        ),
        ("a.tsv", {"source_column": "lemma,tag"}, "--source-column lemma,tag: .* no column 'tag'"),
        (
            "a.tsv",
            {"target_column": "7", "header": True},
            r"--target-column 7: .*no column 7; .*2 \(tags\)",
        ),
        (
            "a.tsv",
            {"target_column": "7"},
            r"a\.tsv:1: too few columns: 3, 8 are needed\. .* 0 \(lemma\), 1 \(form\), 2 \(tags\)\. .*"
            "--source-column .*--target-column",
        ),
        ("a.tsv", {"target_column": "lemma,form"}, "--target-column lemma,form: the target is one"),
        (
            "a.jsonl",
            {"source_column": "word"},
            r"missing key: 'word' \(keys .*lemma, form, tags.*--source-column",
        ),
    ],
)
def test_wrong_column(tmp_path: Path, name: str, options: dict[str, Any], message: str) -> None:
    content = JSON if name == "a.jsonl" else TABLE
    with pytest.raises(RegardError, match=message):
        pairs(reader(tmp_path, name, content, **options))


def test_wrong_column_with_all_rows_skipped(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"no valid row .*columns 0, 1, 2.*--target-column"):
        pairs(reader(tmp_path, "a.tsv", TABLE, target_column="7"), skip=True)
