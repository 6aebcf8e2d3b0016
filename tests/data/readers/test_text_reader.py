"""Reading pairs: every format, row errors, and invalid files."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.data.readers.text_file import Row, RowErrors
from regard.data.readers.text_reader import FORMATS_OF, TextReader


def read(path: Path, *, skip: bool = False, **options: object) -> list[Row]:
    return list(TextReader(path=path, **options).rows(errors=RowErrors(skip=skip)))  # type: ignore[arg-type]


def pairs(rows: list[Row]) -> list[tuple[str, str]]:
    return [(row.input, row.target) for row in rows]


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def gzipped(content: bytes) -> bytes:
    """Gzip without a timestamp, so that test ids are stable."""
    return gzip.compress(content, mtime=0)


def test_formats_table() -> None:
    assert list(FORMATS_OF["text"]) == ["tsv", "csv", "jsonl", "dictionary", "lines"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "der Hund\tthe dog\nüber\tover\n"),
        ("a.txt", "der Hund\tthe dog\r\nüber\tover\r\n"),
        ("a.tab", "\ufeffder Hund\tthe dog\textra\nüber \t over"),
        ("A.TSV", "der Hund\tthe dog\nu\u0308ber\tover\n"),
        ("a.csv", '"der Hund",the dog\nüber,"over"\n'),
        ("a.jsonl", '{"source": "der Hund", "target": "the dog"}\n["\\u00fcber", "over", 3]\n'),
        ("a.ndjson", '\ufeff{"target": "the dog", "source": "der Hund"}\r\n["über", "over"]\r\n'),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_all_formats_yield_the_same_pairs(
    tmp_path: Path, name: str, content: str, zipped: bool
) -> None:
    raw = gzip.compress(content.encode()) if zipped else content.encode()
    rows = read(written(tmp_path, name + (".gz" if zipped else ""), raw))
    assert rows == [Row("der Hund", "the dog", 1), Row("über", "over", 2)]


def test_gzip_is_detected_by_content(tmp_path: Path) -> None:
    without_extension = written(tmp_path, "a.tsv", gzip.compress(b"a\tb\n"))
    plain_with_extension = written(tmp_path, "b.tsv.gz", b"a\tb\n")
    assert read(without_extension) == read(plain_with_extension) == [Row("a", "b", 1)]


def test_texts_are_nfc(tmp_path: Path) -> None:
    (row,) = read(written(tmp_path, "a.tsv", "Cafe\u0301\tn\u0303\n"))
    assert row.input == "Café"
    assert all(unicodedata.is_normalized("NFC", text) for text in row[:2])


def test_dictionary_format(tmp_path: Path) -> None:
    content = (
        ";;; a comment\n## another\nREAD  R EH D\nread(2) R IY D # as in reeds\n"
        "#HASH-MARK  HH AE SH\n;SEMI-COLON\tS EH M IY\n(2) T UW\n"
    )
    assert read(written(tmp_path, "a.dict", content)) == [
        Row("READ", "R EH D", 3),
        Row("read", "R IY D", 4),
        Row("#HASH-MARK", "HH AE SH", 5),
        Row(";SEMI-COLON", "S EH M IY", 6),
        Row("(2)", "T UW", 7),
    ]


def test_columns_by_index_name_and_key(tmp_path: Path) -> None:
    table = "id\ten\tes\n7\tdog\tperro\n"
    for name, content in (("a.tsv", table), ("a.csv", table.replace("\t", ","))):
        path = written(tmp_path, name, content)
        assert pairs(read(path, source_column="es", target_column="en")) == [("perro", "dog")]
        assert pairs(read(path, source_column=2, target_column=1, header=True)) == [
            ("perro", "dog")
        ]
    path = written(tmp_path, "a.jsonl", '{"es": "perro", "en": "dog", "2": "x"}\n')
    assert pairs(read(path, source_column="es", target_column="en")) == [("perro", "dog")]
    assert pairs(read(path, source_column="es", target_column=2)) == [("perro", "x")]
    path = written(tmp_path, "a.dict", "dog D AO G\n")
    assert pairs(read(path, source_column=1, target_column=0)) == [("D AO G", "dog")]


def test_unknown_column_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "en\tes\ndog\tperro\n")
    with pytest.raises(
        RegardError, match=r"--source-column fr: .*no column 'fr'; .* 0 \(en\), 1 \(es\)"
    ):
        read(path, source_column="fr")


def test_quoted_newline_and_line_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", 'a,"one\r\ntwo, ""three"""\r\nb,c\n')
    assert read(path) == [Row("a", 'one\ntwo, "three"', 1), Row("b", "c", 3)]


def test_parallel_files(tmp_path: Path) -> None:
    written(tmp_path, "x.de", gzip.compress(b"ein\nzwei\n"))
    written(tmp_path, "x.en", b"one\ntwo")
    source = TextReader.from_text(f"{tmp_path}/x.de,{tmp_path}/x.en")
    assert source.format_name == "lines"
    assert pairs(list(source.rows(errors=RowErrors()))) == [("ein", "one"), ("zwei", "two")]


@pytest.mark.parametrize(("first", "second"), [(2, 5), (5, 2), (1, 40)])
@pytest.mark.parametrize("skip", [False, True])
def test_parallel_files_of_different_length(
    tmp_path: Path, first: int, second: int, skip: bool
) -> None:
    left = written(tmp_path, "x.de", "a\n" * first)
    right = written(tmp_path, "x.en", "b\n" * second)
    message = rf"x\.de' has {first}, .*x\.en' has {second}\. "
    with pytest.raises(RegardError, match=message):
        read(left, target_path=right, skip=skip)


def test_parallel_files_stay_aligned_after_a_row_error(tmp_path: Path) -> None:
    left = written(tmp_path, "x.de", b"eins\n\xff\ndrei\n\nf\xc3\xbcnf\n")
    right = written(tmp_path, "x.en", b"one\ntwo\n\nfour\nfive\n")
    errors = RowErrors(skip=True)
    rows = list(TextReader(path=left, target_path=right).rows(errors=errors))
    assert rows == [Row("eins", "one", 1), Row("fünf", "five", 5)]
    assert [(row.path, row.line, row.reason.partition(":")[0]) for row in errors.rows] == [
        (left, 2, "not UTF-8"),
        (right, 3, "empty target"),
        (left, 4, "empty source"),
    ]


def test_comma_in_a_file_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b.tsv", "a\tb\n")
    assert TextReader.from_text(str(path)).target_path is None
    with pytest.raises(RegardError, match="a,"):
        TextReader.from_text("a,b,c")
    with pytest.raises(RegardError, match="a,"):
        TextReader.from_text("a,")


# File name, content with an error in line 2, the reason.
BAD_ROWS = [
    ("a.tsv", b"a\tb\nonly\nc\td\n", "too few columns: 1"),
    ("a.tsv", b"a\tb\n \tx\nc\td\n", "empty source"),
    ("a.tsv", b"a\tb\nx\t\xc2\xa0\nc\td\n", "empty target"),
    ("a.tsv", b"a\tb\nx\xe9y\tz\nc\td\n", "not UTF-8: byte 1 of the line is 0xe9"),
    ("a.tsv", b"a\tb\nx\0\tz\nc\td\n", "NUL character: U+0000 at character 1 of the source"),
    ("a.tsv", b"a\tb\nx\tz\x07\nc\td\n", "control character: U+0007 at character 1 of the target"),
    ("a.tsv", b"a\tb\nx\rq\tz\nc\td\n", "control character: U+000D"),
    ("a.tsv", b"a\tb\nx\xc2\x85\tz\nc\td\n", "control character: U+0085"),
    ("a.tsv", b"a\tb\nx\t" + b"y" * 200_000 + b"\nc\td\n", "line too long: 200,003 bytes"),
    ("a.csv", b"a,b\nx\nc,d\n", "too few columns"),
    ("a.csv", b'a,b\n"x"y,z\nc,d\n', "not CSV"),
    ("a.csv", b"a,b\nx\xff,z\nc,d\n", "not UTF-8"),
    ("a.jsonl", b'["a","b"]\n{"source": \n["c","d"]\n', "not JSON"),
    ("a.jsonl", b'["a","b"]\n' + b"[" * 90_000 + b'\n["c","d"]\n', "not JSON"),
    (
        "a.jsonl",
        b'["a","b"]\n{"source": "x"}\n["c","d"]\n',
        "missing key: 'target'",
    ),
    ("a.jsonl", b'["a","b"]\n["x"]\n["c","d"]\n', "missing key"),
    ("a.jsonl", b'["a","b"]\n["x", 3]\n["c","d"]\n', "value not a string: column '1' is int"),
    ("a.jsonl", b'["a","b"]\n["x", null]\n["c","d"]\n', "value not a string"),
    ("a.jsonl", b'["a","b"]\n7\n["c","d"]\n', "not an object or a list: int"),
    ("a.jsonl", b'["a","b"]\n["x", "\\ud800"]\n["c","d"]\n', "control character: U+D800"),
    ("a.jsonl", b'["a","b"]\n["x", "\\u0000"]\n["c","d"]\n', "NUL character"),
    ("a.dict", b"a b\nword\nc d\n", "empty target"),
    ("a.dict", b"a b\n\nc d\n", "empty source"),
    ("a.dict", b"a b\n" + b"x" * 100_001 + b"\nc d\n", "line too long"),
]


@pytest.mark.parametrize(
    ("name", "content", "reason"), BAD_ROWS, ids=[each[2] for each in BAD_ROWS]
)
def test_row_error_raises_or_is_listed(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(RegardError) as raised:
        read(path)
    text = str(raised.value)
    assert text.startswith(f"{path}:2: {reason}")
    assert "--skip-bad-rows" in text

    errors = RowErrors(skip=True)
    rows = list(TextReader(path=path).rows(errors=errors))
    assert rows == [Row("a", "b", 1), Row("c", "d", 3)]
    assert errors.count == 1
    assert errors.rows[0].line == 2
    assert errors.rows[0].reason.startswith(reason)
    assert f"{path}:2: {reason}" in errors.summary()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "a\tb\n\nc\td\n\n"),
        ("a.csv", "a,b\n\nc,d\n\n"),
        ("a.jsonl", '["a","b"]\n \n["c","d"]\n\n'),
    ],
)
def test_blank_lines_are_skipped(tmp_path: Path, name: str, content: str) -> None:
    assert read(written(tmp_path, name, content)) == [Row("a", "b", 1), Row("c", "d", 3)]


def test_line_of_exactly_the_limit(tmp_path: Path) -> None:
    for ending in (b"\n", b"\r\n", b""):
        path = written(tmp_path, "a.tsv", b"ab\tcdef" + ending)
        assert pairs(read(path, max_line_bytes=7)) == [("ab", "cdef")]
        with pytest.raises(RegardError, match="line too long"):
            read(path, max_line_bytes=6)


@pytest.mark.parametrize("zipped", [False, True])
def test_memory_for_a_huge_line(tmp_path: Path, zipped: bool) -> None:
    content = b"a\tb\n" + b"x" * 20_000_000 + b"\nc\td\n"
    path = written(tmp_path, "a.tsv", gzip.compress(content, 1) if zipped else content)
    del content
    tracemalloc.start()
    try:
        rows = read(path, skip=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert pairs(rows) == [("a", "b"), ("c", "d")]
    assert peak < 2_000_000


def test_memory_for_a_large_file(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "source text\ttarget text\n" * 30_000)
    rows = TextReader(path=path).rows(errors=RowErrors())
    next(rows)
    tracemalloc.start()
    try:
        for _ in range(9_000):
            next(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000


def test_unclosed_quote(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", 'a,b\n"c,d\ne,f\n')
    with pytest.raises(RegardError, match=r"a\.csv:2: not CSV: .*lines 2 to 3"):
        read(path)
    errors = RowErrors(skip=True)
    assert pairs(list(TextReader(path=path).rows(errors=errors))) == [("a", "b")]
    assert errors.count == 1


def test_invalid_line_inside_quotes(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", b'a,b\nc,"one\n\xff\ntwo"\ne,f\n')
    errors = RowErrors(skip=True)
    assert pairs(list(TextReader(path=path).rows(errors=errors))) == [("a", "b"), ("e", "f")]
    assert [(row.line, row.reason.partition(":")[0]) for row in errors.rows] == [
        (3, "not UTF-8"),
        (2, "row with an invalid line"),
    ]


# File name, content, error message.
BAD_FILES = [
    ("empty.tsv", b"", "is empty"),
    ("empty.tsv.gz", gzipped(b""), "is empty"),
    ("cut.tsv.gz", gzipped(b"a\tb\n" * 9)[:-12], "damaged gzip file"),
    ("flip.tsv.gz", gzipped(b"a\tb\n")[:-6] + b"\1\2\3\4\5\6", "damaged gzip file"),
    ("head.tsv.gz", b"\x1f\x8bnot gzip at all", "damaged gzip file"),
    ("one.tsv", b"hello\nworld\n", "--format"),
    ("utf16.tsv", "a\tb\n".encode("utf-16"), "is UTF-16 text"),
    ("a.tsv", b"PK\x03\x04....", "is a zip archive"),
    ("a.xml", b"<a/>", r"--format: tsv, csv, jsonl, dictionary, lines"),
    ("noextension", b"a\tb\n", "--format"),
    ("noextension.gz", b"a\tb\n", "--format"),
]


@pytest.mark.parametrize(
    ("name", "content", "message"), BAD_FILES, ids=[each[0] for each in BAD_FILES]
)
def test_invalid_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(RegardError, match=message) as raised:
        read(path)
    assert name in str(raised.value)


def test_missing_file_raises_before_reading(tmp_path: Path) -> None:
    folder = tmp_path / "folder.tsv"
    folder.mkdir()
    with pytest.raises(RegardError, match="is a folder, not a file"):
        TextReader(path=folder).rows(errors=RowErrors())
    with pytest.raises(RegardError, match="There is no file"):
        TextReader(path=tmp_path / "absent.tsv").rows(errors=RowErrors())


def test_file_without_a_valid_row(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "one\ntwo\n")
    with pytest.raises(RegardError, match=r"a\.tsv' .*\(2 .*:1: "):
        read(path, skip=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "tvs"}, "Unknown format 'tvs'. Did you mean 'tsv'"),
        ({"source_column": -1}, "Column -1"),
        ({"max_line_bytes": 0}, "max_line_bytes=0"),
    ],
)
def test_invalid_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        TextReader(path=Path("a.tsv"), **options)  # type: ignore[arg-type]


def test_format_and_number_of_files() -> None:
    with pytest.raises(RegardError, match="Format 'lines' reads two parallel files"):
        _ = TextReader(path=Path("a.txt"), format="lines").format_name
    with pytest.raises(RegardError, match="Format 'csv' reads one file"):
        _ = TextReader(path=Path("a"), target_path=Path("b"), format="csv").format_name


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.jsonl", {"header": True}, "Format 'jsonl' has no header.* tsv and csv"),
        ("a.dict", {"header": True}, "Format 'dictionary' has no header"),
        ("a.dict", {"target_column": 2}, r"only the columns 0 \(the word\) and 1 \(its phones\)"),
        ("a.dict", {"source_column": "word"}, "Columns 'word': format 'dictionary' has only"),
    ],
)
def test_columns_the_format_does_not_have(
    tmp_path: Path, name: str, options: dict[str, object], message: str
) -> None:
    path = written(tmp_path, name, "a b\n")
    with pytest.raises(RegardError, match=message):
        read(path, **options)  # type: ignore[arg-type]


def test_invalid_header_row(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", b"\xff\tes\na\tb\nc\td\n")
    with pytest.raises(RegardError, match=r"header row of .*a\.tsv"):
        read(path, header=True, skip=True)


@pytest.mark.parametrize("name", ["x" * 5000 + ".tsv", "a\0.tsv"])
def test_invalid_file_name(name: str) -> None:
    with pytest.raises(RegardError, match="There is no file"):
        TextReader.from_text(name).rows(errors=RowErrors())


def test_explicit_format(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "CAT  K AE T\n")
    assert pairs(read(path, format="dictionary")) == [("CAT", "K AE T")]


def test_round_trip_through_every_format(tmp_path: Path) -> None:
    texts = ["it's", 'say "x"', "a,b", "日本 語", "x\u2028y", "ﬁ", "\\n", "e\u0301", "<pad>", "🙂"]
    expected = [(unicodedata.normalize("NFC", text), str(i)) for i, text in enumerate(texts)]
    tsv = "".join(f"{text}\t{i}\n" for i, text in enumerate(texts))
    quoted = "".join('"{}",{}\n'.format(text.replace('"', '""'), i) for i, text in enumerate(texts))
    jsonl = "".join(json.dumps([text, str(i)]) + "\n" for i, text in enumerate(texts))
    for name, content in (("a.tsv", tsv), ("a.csv", quoted), ("a.jsonl", jsonl)):
        assert pairs(read(written(tmp_path, name, content))) == expected


@pytest.mark.parametrize("format_name", FORMATS_OF["text"])
@pytest.mark.parametrize("skip", [False, True])
def test_random_bytes_yield_rows_or_a_regard_error(
    tmp_path: Path, format_name: str, skip: bool
) -> None:
    """Bytes with a meaning in some format, in random order."""
    rng = random.Random(7)
    parts = [
        b"a",
        b"word",
        b"\t",
        b",",
        b'"',
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xc3\xa9",
        b" ",
    ]
    parts += [
        b'["x","y"]\n',
        b'{"source":"s","target":"t"}\n',
        b"{",
        b"]",
        b"w(2) P H\n",
        b"\xef\xbb\xbf",
    ]
    for _ in range(60):
        paths = [
            written(tmp_path, name, b"".join(rng.choices(parts, k=rng.randrange(40))))
            for name in ("one", "two")
        ]
        target_path = paths[1] if format_name == "lines" else None
        source = TextReader(path=paths[0], target_path=target_path, format=format_name)
        errors = RowErrors(skip=skip)
        try:
            rows = list(source.rows(errors=errors))
        except RegardError:
            continue
        assert rows
        assert all(row.input.strip() and row.target.strip() for row in rows)
        assert skip or errors.count == 0


@pytest.mark.data
def test_cmudict_file(data_folder: Path) -> None:
    rows = read(data_folder / "cmudict" / "train.gz", format="dictionary")
    assert len(rows) == 108_985
    assert rows[0] == Row("'CAUSE", "K AH Z", 1)
    assert len({phone for row in rows for phone in row.target.split()}) == 39


@pytest.mark.data
def test_multi30k_files(data_folder: Path) -> None:
    folder = data_folder / "multi30k"
    source = TextReader.from_text(f"{folder}/train.de.gz,{folder}/train.en.gz")
    rows = list(source.rows(errors=RowErrors()))
    assert len(rows) == 29_000
    assert rows[2].target == "A little girl climbing into a wooden playhouse."


@pytest.mark.parametrize("skip", [False, True])
def test_header_of_a_file_of_numbers_is_detected(tmp_path: Path, skip: bool) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("text,y\nhello there,2\nyes,1\n", encoding="utf-8")
    rows = TextReader.from_text(str(path), target="number").rows(errors=RowErrors(skip=skip))
    with pytest.raises(RegardError, match=r"--source-column text --target-column y"):
        list(rows)
    named = TextReader.from_text(
        str(path), target="number", source_column="text", target_column="y"
    )
    assert [row.target for row in named.rows(errors=RowErrors())] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("nofile", "Check the path"), ("film_facts", "mean the dataset 'film-facts'")],
)
def test_missing_file_without_extension(name: str, way_out: str, tmp_path: Path) -> None:
    reader = TextReader.from_text(str(tmp_path / name))
    with pytest.raises(RegardError, match=f"There is no file .*{name}'.*{way_out}"):
        reader.rows(errors=RowErrors())


@pytest.mark.parametrize(
    ("row", "options", "noted"),
    [
        ("lemma\ttags\tform", {}, True),
        ("Source Text\tTarget Text", {}, True),
        ("lemma\ttags\tform", {"source_column": "lemma,tags", "target_column": "form"}, False),
        ("source\ttarget", {"header": True}, False),
        ("word\tWort", {}, False),
        ("text\ttext", {}, False),
    ],
)
def test_header_of_pairs_is_noted(
    row: str, options: dict[str, Any], noted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{row}\nrun\tV;PST\tran\n")
    notice = TextReader.from_text(str(path), **options).notice
    assert ("looks like a header; to skip it, set --header." in notice) == noted
