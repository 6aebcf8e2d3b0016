"""File formats: one function per format, which yields the records of a file, and the table `FORMATS`.

    tsv         source⇥target                  columns by number, or by name under a header
    csv         source,target                  the same with quotes; a quoted newline is kept
    jsonl       {"source": …, "target": …}     one object or list per line
    dictionary  WORD  P H O N E S              word(2) is a second pronunciation; ;;; and ## are comments
    lines       two files                      line n of one pairs with line n of the other
    labelled    sports Who won the final ?     label, one space, text
    text        It is a film. It is old.       one text per line

Blank lines are skipped, except in dictionaries and parallel files. A record is raw: `TextReader` selects
its columns and cleans the texts, the same for every format.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from regard.core.errors import RegardError
from regard.data.readers.text_file import RowErrors, TextFile, decoded_lines, nonblank_lines

COMMENT_PREFIXES = (";;;", "##")
PRONUNCIATION_NUMBER = re.compile(r"\(\d+\)$")
JSON_KEYS = ("source", "target")
"""The keys of a JSON object that columns 0 and 1 stand for."""

Record = tuple[int, Any]
"""The line a record begins on, and its fields: a list, or any JSON value."""


def tsv_records(file: TextFile, *, errors: RowErrors) -> Iterator[Record]:
    """Fields separated by tabs."""
    lines = nonblank_lines(file.lines(errors=errors))
    return ((number, text.split("\t")) for number, text in lines)


def csv_records(file: TextFile, *, errors: RowErrors) -> Iterator[Record]:
    """CSV records. A record that contains an invalid line is skipped as a whole."""
    invalid_lines: set[int] = set()

    def physical_lines() -> Iterator[str]:
        for line in file.lines(errors=errors):
            if line.text is None:
                invalid_lines.add(line.number)
            yield f"{line.text or ''}\n"

    reader = csv.reader(physical_lines(), strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            fields = _next_record(reader, limit=file.max_line_bytes)
        except StopIteration:
            return
        except csv.Error as error:
            invalid_lines.clear()
            reason = f"not CSV: {error} (lines {begin} to {reader.line_num})"
            hint = "Check the quotes"
            if "field limit" in str(error):  # a quoted field over several lines
                hint += f"; else r{file.too_long_hint[1:]}" if file.limit_option else ""
            errors.report(path=file.path, line=begin, reason=reason, hint=hint)
            continue
        if invalid_lines and not invalid_lines.isdisjoint(range(begin, reader.line_num + 1)):
            invalid_lines.clear()
            if reader.line_num > begin:
                reason = f"row with an invalid line: lines {begin} to {reader.line_num}"
                errors.report(path=file.path, line=begin, reason=reason)
            continue
        if len(fields) > 1 or "".join(fields).strip(" "):  # not a blank line
            yield begin, [field.replace("\r\n", "\n") for field in fields]


def _next_record(reader: Iterator[list[str]], *, limit: int) -> list[str]:
    """The next record; csv's field size limit is global, so it is restored afterwards."""
    previous = csv.field_size_limit(limit)
    try:
        return next(reader)
    finally:
        csv.field_size_limit(previous)


def dictionary_records(file: TextFile, *, errors: RowErrors) -> Iterator[Record]:
    """Word and phones of every line that is not a comment; a phone that begins with # starts one."""
    for number, text in decoded_lines(file.lines(errors=errors)):
        if text.startswith(COMMENT_PREFIXES):
            continue
        word, *phones = text.split() or [""]
        comment = next((index for index, phone in enumerate(phones) if phone[0] == "#"), None)
        pronunciation = " ".join(phones[:comment])
        yield number, [PRONUNCIATION_NUMBER.sub("", word) or word, pronunciation]


def parallel_records(first: TextFile, second: TextFile, *, errors: RowErrors) -> Iterator[Record]:
    """Line n of one file with line n of the other; both must have the same number of lines."""
    counts = [0, 0]
    for left, right in zip_longest(first.lines(errors=errors), second.lines(errors=errors)):
        for side, line in enumerate((left, right)):
            counts[side] = line.number if line else counts[side]
        if left and right and left.text is not None and right.text is not None:
            yield left.number, [left.text, right.text]
    if counts[0] != counts[1]:
        raise RegardError(
            f"Parallel files must have the same number of lines: '{first.path}' has {counts[0]:,}, "
            f"'{second.path}' has {counts[1]:,}. Line n of one must pair with line n of the other."
        )


def json_records(file: TextFile, *, errors: RowErrors) -> Iterator[Record]:
    """One JSON value per line."""
    for number, text in nonblank_lines(file.lines(errors=errors)):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            errors.report(path=file.path, line=number, reason=f"not JSON: {error}")
        else:
            yield number, value


def labelled_records(file: TextFile, *, errors: RowErrors) -> Iterator[Record]:
    """The label up to the first space, then the text."""
    lines = nonblank_lines(file.lines(errors=errors))
    return ((number, list(line.partition(" ")[::2])) for number, line in lines)


def text_records(file: TextFile, *, errors: RowErrors) -> Iterator[Record]:
    """One text per line; a line of white space is blank."""
    lines = decoded_lines(file.lines(errors=errors))
    return ((number, [text]) for number, text in lines if text.strip())


class JsonColumnError(ValueError):
    """A JSON value without the requested column."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def json_field(value: object, column: int | str, *, kinds: tuple[type, ...] = ()) -> str:
    """The text under a key of an object or at an index of a list, with newlines normalised.

    Values of further `kinds`, such as integers as labels, are spelled as in JSON.

    >>> json_field({"source": "one\\r\\ntwo"}, 0)
    'one\\ntwo'
    >>> json_field({"label": 1}, "label", kinds=(int,)), json_field([True], 0, kinds=(int,))
    ('1', 'true')
    """
    found = _json_column(value, column)
    if isinstance(found, kinds):
        return json.dumps(found)
    if not isinstance(found, str):
        what, hint = "string", ""
        if kinds:
            what, hint = "label", "Write it as a string or an integer"
        raise JsonColumnError(
            f"value not a {what}: column '{column}' is {type(found).__name__}", hint=hint
        )
    return found.replace("\r\n", "\n")


def _json_column(value: object, column: int | str) -> object:
    if isinstance(value, dict):
        numbered = isinstance(column, int) and column < len(JSON_KEYS)
        key = JSON_KEYS[int(column)] if numbered else str(column)
        if key not in value:
            raise JsonColumnError(
                f"missing key: '{key}' (keys found: {', '.join(list(value)[:10]) or 'none'})",
                hint="Name the keys with --source-column and --target-column, fix the line",
            )
        return value[key]
    if isinstance(value, list):
        if not isinstance(column, int) or column >= len(value):
            raise JsonColumnError(f"missing key: the list has no index '{column}'")
        return value[column]
    raise JsonColumnError(f"not an object or a list: {type(value).__name__}")


# Functions of one file; "lines" reads two (`parallel_records`).
FORMATS: dict[str, Callable[..., Iterator[Record]]] = {
    "tsv": tsv_records,
    "csv": csv_records,
    "jsonl": json_records,
    "dictionary": dictionary_records,
    "lines": parallel_records,
    "labelled": labelled_records,
    "text": text_records,
}

EXTENSIONS: dict[str, str] = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".dict": "dictionary",
}

# Formats that may have a header row, and formats with two fixed columns.
HEADER_FORMATS = ("tsv", "csv")
FIXED_COLUMNS: dict[str, tuple[str, str]] = {
    "dictionary": ("the word", "its phones"),
    "lines": ("the first file", "the second file"),
}


def header_row(file: TextFile, format_name: str, *, errors: RowErrors) -> list[str]:
    """The column names in line 1; raises if it cannot be read."""
    line, names = next(FORMATS[format_name](file, errors=errors), (0, []))
    if line != 1:
        raise RegardError(
            f"The header row of '{file.path}' cannot be read. Fix it, or give the columns as numbers and "
            "remove --header."
        )
    return list(names)
