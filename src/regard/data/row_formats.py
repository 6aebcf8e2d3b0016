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

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.json_fields import MisfitError, json_text
from regard.data.row_records import csv_records, dictionary_records, parallel_records
from regard.data.text_lines import TextFile, filled_lines


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
