"""How pairs are written in files: one reader a format, and the table that names them.

    tsv         source⇥target                  columns by number, or by name under a header
    csv         source,target                  the same with quotes; a quoted newline is kept
    jsonl       {"source": …, "target": …}     an object with keys, or a list, a line
    dictionary  WORD  P H O N E S              word(2) is another pronunciation; ;;; and ## are comments
    lines       two files                      line n of one belongs to line n of the other

Blank lines are no rows in the first three. A reader gives the two texts as they stand; `pair_rows` cleans
them, the same for every format.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows, TextFile, filled_lines, good_lines

# The records of formats that are more than a line cut at tabs: CSV, dictionary, parallel files.
#
# A record is the line it begins on and its fields.


COMMENTS = (";;;", "##")
ANOTHER_PRONUNCIATION = re.compile(r"\(\d+\)$")


def csv_records(file: TextFile, *, bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    """Records and the line each begins on. A record with a bad line in it is left out with that line."""
    unusable: set[int] = set()

    def physical() -> Iterator[str]:
        for line in file.lines(bad=bad):
            if line.text is None:
                unusable.add(line.number)
            yield f"{line.text or ''}\n"

    reader = csv.reader(physical(), strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            fields = _next(reader, limit=file.max_line_bytes)
        except StopIteration:
            return
        except csv.Error as error:
            unusable.clear()
            reason = f"not CSV: {error} (lines {begin} to {reader.line_num})"
            hint = "Check the quotes"
            if "field limit" in str(error):  # lines of a quoted field that are too long together
                hint += f"; else r{file.too_long_hint[1:]}" if file.limit_option else ""
            bad.report(path=file.path, line=begin, reason=reason, hint=hint)
            continue
        if unusable and not unusable.isdisjoint(range(begin, reader.line_num + 1)):
            unusable.clear()
            if reader.line_num > begin:
                reason = f"row with a bad line in it: lines {begin} to {reader.line_num}"
                bad.report(path=file.path, line=begin, reason=reason)
            continue
        if len(fields) > 1 or "".join(fields).strip(" "):  # a blank line is no record
            yield begin, [field.replace("\r\n", "\n") for field in fields]


def _next(reader: Iterator[list[str]], *, limit: int) -> list[str]:
    """The next record; the limit of a field is the module's, not the reader's, and is put back."""
    before = csv.field_size_limit(limit)
    try:
        return next(reader)
    finally:
        csv.field_size_limit(before)


def dictionary_records(file: TextFile, *, bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    """Word and phones of every line that is not a comment."""
    for number, text in good_lines(file.lines(bad=bad)):
        if text.startswith(COMMENTS):
            continue
        word, *phones = text.split() or [""]
        comment = next((place for place, phone in enumerate(phones) if phone[0] == "#"), None)
        said = " ".join(phones[:comment])
        yield number, [ANOTHER_PRONUNCIATION.sub("", word) or word, said]


def parallel_records(
    first: TextFile, second: TextFile, *, bad: BadRows
) -> Iterator[tuple[int, list[str]]]:
    """Line n of one file with line n of the other; an error, if one file has more."""
    counts = [0, 0]
    for left, right in zip_longest(first.lines(bad=bad), second.lines(bad=bad)):
        for side, line in enumerate((left, right)):
            counts[side] = line.number if line else counts[side]
        if left and right and left.text is not None and right.text is not None:
            yield left.number, [left.text, right.text]
    if counts[0] != counts[1]:
        raise RegardError(
            f"Parallel files must have equally many lines: '{first.path}' has {counts[0]:,}, "
            f"'{second.path}' has {counts[1]:,}. Make line n of one belong to line n of the other."
        )


# A text or a label out of a JSON value: under a key of an object, or at a place of a list.


JSON_KEYS = ("source", "target")
"""The keys that columns 0 and 1 mean in an object."""


class MisfitError(ValueError):
    """A JSON value that does not hold the texts that were asked for."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def json_text(value: object, column: int | str) -> str:
    """The text under a key of an object or at a place of a list; a line of it ends as in a file here.

    >>> json_text({"source": "one\\r\\ntwo"}, 0)
    'one\\ntwo'
    """
    found = _found(value, column)
    if not isinstance(found, str):
        raise MisfitError(f"value not a text: column '{column}' is {type(found).__name__}")
    return found.replace("\r\n", "\n")


def json_label(value: object, column: int | str) -> str:
    """The label there: a text, or a whole number or truth value as JSON writes it.

    >>> json_label({"label": 1}, "label"), json_label({"label": True}, "label")
    ('1', 'true')
    """
    found = _found(value, column)
    if isinstance(found, int):  # which a truth value is too
        return json.dumps(found)
    if not isinstance(found, str):
        raise MisfitError(
            f"value not a label: column '{column}' is {type(found).__name__}",
            hint="Write it as a text or a whole number",
        )
    return found.replace("\r\n", "\n")


def _found(value: object, column: int | str) -> object:
    if isinstance(value, dict):
        known = isinstance(column, int) and column < len(JSON_KEYS)
        key = JSON_KEYS[int(column)] if known else str(column)
        if key not in value:
            raise MisfitError(
                f"missing key: '{key}' (keys there: {', '.join(list(value)[:10]) or 'none'})",
                hint="Name the keys with --source-column and --target-column, fix the line",
            )
        return value[key]
    if isinstance(value, list):
        if not isinstance(column, int) or column >= len(value):
            raise MisfitError(f"missing key: the list has no place '{column}' (from 0)")
        return value[column]
    raise MisfitError(f"not an object or a list: {type(value).__name__}")


class PairRow(NamedTuple):
    """A source text, its target text, and the line they begin on, counted from 1."""

    source: str
    target: str
    line: int


class Columns(NamedTuple):
    """Which columns hold the source and the target: a number from 0, or a name or key."""

    source: int | str
    target: int | str
    header: bool


def read_tsv(files: Sequence[TextFile], *, columns: Columns, bad: BadRows) -> Iterator[PairRow]:
    """Columns between tabs."""
    (file,) = files
    table = ((number, text.split("\t")) for number, text in filled_lines(file.lines(bad=bad)))
    return table_rows(table, file=file, columns=columns, bad=bad)


def read_csv(files: Sequence[TextFile], *, columns: Columns, bad: BadRows) -> Iterator[PairRow]:
    """Columns between commas, quoted where need be."""
    (file,) = files
    return table_rows(csv_records(file, bad=bad), file=file, columns=columns, bad=bad)


def read_jsonl(files: Sequence[TextFile], *, columns: Columns, bad: BadRows) -> Iterator[PairRow]:
    """A JSON object or list on every line."""
    (file,) = files
    return json_rows(file, columns=columns, bad=bad, target_of=json_text)


def json_rows(
    file: TextFile,
    *,
    columns: Columns,
    bad: BadRows,
    target_of: Callable[[object, int | str], str],
) -> Iterator[PairRow]:
    """The asked columns of every JSON value; `target_of` says what may be a target."""
    for number, text in filled_lines(file.lines(bad=bad)):
        try:
            value = json.loads(text)
            row = PairRow(
                json_text(value, columns.source), target_of(value, columns.target), number
            )
        except MisfitError as error:
            bad.report(path=file.path, line=number, reason=str(error), hint=error.hint)
        except (ValueError, RecursionError) as error:
            bad.report(path=file.path, line=number, reason=f"not JSON: {error}")
        else:
            yield row


def read_dictionary(
    files: Sequence[TextFile], *, columns: Columns, bad: BadRows
) -> Iterator[PairRow]:
    """A word and its phones; what follows a phone that begins with # is a comment."""
    (file,) = files
    return table_rows(dictionary_records(file, bad=bad), file=file, columns=columns, bad=bad)


def read_lines(files: Sequence[TextFile], *, columns: Columns, bad: BadRows) -> Iterator[PairRow]:
    """Two files of equally many lines."""
    first, second = files
    table = parallel_records(first, second, bad=bad)
    return table_rows(table, file=first, columns=columns, bad=bad)


Reader = Callable[..., Iterator[PairRow]]

FORMATS: dict[str, Reader] = {
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "dictionary": read_dictionary,
    "lines": read_lines,
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

# Formats whose first row may name the columns, and formats whose columns are always the same two.
NAMED_COLUMNS = ("tsv", "csv")
TWO_COLUMNS: dict[str, tuple[str, str]] = {
    "dictionary": ("the word", "its phones"),
    "lines": ("the first file", "the second file"),
}


def table_rows(
    table: Iterator[tuple[int, list[str]]], *, file: TextFile, columns: Columns, bad: BadRows
) -> Iterator[PairRow]:
    """The asked columns of every record; a header, if there is one, says which they are."""
    if columns.header or isinstance(columns.source, str) or isinstance(columns.target, str):
        line, names = next(table, (0, []))
        if line != 1:
            raise RegardError(
                f"The first row of '{file.path}' should name its columns, but cannot be read. Fix it, "
                "or give the columns as numbers and leave --header out."
            )
        source, target = (column_number(file, names, column) for column in columns[:2])
    else:
        source, target = columns.source, columns.target
    for number, (line, fields) in enumerate(table):
        if max(source, target) < len(fields):
            yield PairRow(fields[source], fields[target], line)
            continue
        hint = ""
        if number == 0 and len(fields) == 1:
            hint = (
                "If the file is not of columns, name its format with --format, or give two parallel "
                "files as FIRST,SECOND. Else fix the line"
            )
        reason = f"too few columns: {len(fields)}, but {max(source, target) + 1} are needed"
        bad.report(path=file.path, line=line, reason=reason, hint=hint)


def column_number(file: TextFile, names: list[str], column: int | str) -> int:
    """Where a column stands, by the names of the header."""
    if isinstance(column, int):
        return column
    if column not in names:
        raise RegardError(
            f"'{file.path}' has no column '{column}': its first row names {', '.join(names) or 'none'}. "
            "Use one of these, or a number counted from 0."
        )
    return names.index(column)
