"""The columns of a file: by index, header name or JSON key. Several columns make one input.

    --source-column 1                an index from 0
    --source-column lemma            a header name, or a JSON key
    --source-column lemma,tags       several: run⇥V;PST

The columns of a source of pairs are joined by a tab, which stays visible to the tokenizer: characters are
those of the first column, further columns are whole tokens. Those of a text are joined by a space.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError

Column = int | str
OPTIONS = ("--source-column", "--target-column")
MAX_SHOWN_CHARACTERS = 20


class Columns(NamedTuple):
    """The columns of the input and of the target, and whether the first row is a header."""

    sources: tuple[Column, ...]
    target: Column
    header: bool


def split_columns(column: Column) -> tuple[Column, ...]:
    """The columns that an option names; digits are an index.

    >>> split_columns("lemma,tags"), split_columns("0,2"), split_columns("word")
    (('lemma', 'tags'), (0, 2), ('word',))
    """
    if isinstance(column, int) or "," not in column:
        return (column,)
    parts = (part.strip() for part in column.split(","))
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def column_numbers(
    path: Path, names: Sequence[str], column: Column, *, option: str
) -> tuple[int, ...]:
    """The indices of a column, or of several, by the names of the header row."""
    if column in names:
        return (list(names).index(str(column)),)
    found = []
    for part in split_columns(column):
        number = names.index(part) if part in names else part
        if not isinstance(number, int) or number >= len(names):
            raise RegardError(
                f"{option} {column}: '{path}' has no column {part!r}; it has the columns "
                f"{listed(names)}. Use names of the header row, or indices from 0; several with a comma "
                "between them."
            )
        found.append(number)
    return tuple(found)


def listed(fields: Sequence[str]) -> str:
    """Columns in an error: index and header name, or the beginning of the first field.

    >>> listed(["word", "tags"])
    '0 (word), 1 (tags)'
    """
    return ", ".join(f"{index} ({shorten(field)})" for index, field in enumerate(fields)) or "none"


def shorten(field: str) -> str:
    """The beginning of a field."""
    limit = MAX_SHOWN_CHARACTERS
    return field if len(field) <= limit else f"{field[: limit - 1]}…"


def columns_text(columns: Sequence[tuple[str, bool]]) -> str:
    """The names of all columns, in one line; the second of each pair says whether it is used.

    >>> columns_text([("word", True), ("tags", False), ("form", True)])
    'columns: word, tags (not used), form'
    """
    return "columns: " + ", ".join(
        shorten(name) + ("" if used else " (not used)") for name, used in columns
    )
