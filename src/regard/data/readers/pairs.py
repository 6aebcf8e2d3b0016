"""Pairs of source and target text, streamed from a file: the whole file is never in memory.

    source = PairSource.from_text("train.de.gz,train.en.gz")
    for row in source.rows(errors=RowErrors(skip=True)):
        row.source, row.target, row.line

Texts are normalised to Unicode NFC and stripped of spaces, tabs and newlines. An empty text or one with
control characters is a row error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.data.readers.formats import (
    EXTENSIONS,
    FIXED_COLUMNS,
    FORMATS,
    HEADER_FORMATS,
    Columns,
    PairRow,
)
from regard.data.readers.text_file import RowErrors, TextFile, file_exists

SIDES = ("source", "target")

# Control characters other than tab and newline, and lone surrogates, which JSON can spell.
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
BLANK = re.compile(r"\s*\Z")


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """A file of pairs and its format.

    The format defaults to the one of the file's extension; with `target_path` there are two parallel
    files. A column is an index from 0, a name in the header row (tsv, csv) or a key (jsonl). `header`
    skips the first row where columns are given by index.
    """

    path: Path
    target_path: Path | None = None
    format: str | None = None
    source_column: int | str = 0
    target_column: int | str = 1
    header: bool = False
    max_line_bytes: int = 100_000

    def __post_init__(self) -> None:
        if self.format is not None:
            lookup("format", self.format, FORMATS)
        for column in (self.source_column, self.target_column):
            if isinstance(column, int) and column < 0:
                raise RegardError(f"Column {column}: columns are numbered from 0. Use 0 or more.")
        if self.max_line_bytes < 1:
            raise RegardError(f"max_line_bytes={self.max_line_bytes}: use 1 or more.")

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        format: str | None = None,  # noqa: A002  (the flag's name)
        source_column: int | str = 0,
        target_column: int | str = 1,
        header: bool = False,
    ) -> Self:
        """From a command-line argument: FILE, or FIRST,SECOND for two parallel files.

        A comma in the name of an existing file is part of its name.
        """
        paths = [text] if file_exists(Path(text)) else text.split(",")
        if len(paths) > 2 or not all(paths):
            raise RegardError(
                f"'{text}' is neither a file nor two files separated by a comma. "
                "Give FILE, or FIRST,SECOND for parallel files."
            )
        return cls(
            path=Path(paths[0]),
            target_path=Path(paths[1]) if len(paths) == 2 else None,
            format=format,
            source_column=parse_column(source_column),
            target_column=parse_column(target_column),
            header=header,
        )

    @property
    def format_name(self) -> str:
        """The given format, or the one of the file's extension."""
        if self.format == "lines" and self.target_path is None:
            raise RegardError(
                f"Format 'lines' reads two parallel files, but only '{self.path}' is given. "
                "Give both as FIRST,SECOND."
            )
        if self.target_path is not None:
            if self.format not in {None, "lines"}:
                raise RegardError(
                    f"Format '{self.format}' reads one file, but '{self.path}' and '{self.target_path}' "
                    "are given. Give one file, or remove the format."
                )
            return "lines"
        if self.format is not None:
            return self.format
        extension = Path(self.path.name.lower().removesuffix(".gz")).suffix
        if extension not in EXTENSIONS:
            raise RegardError(
                f"Unknown extension of '{self.path}' (known: {', '.join(EXTENSIONS)}). "
                f"Set the format with --format: {', '.join(FORMATS)}; "
                "or give two parallel files as FIRST,SECOND."
            )
        return EXTENSIONS[extension]

    def rows(self, *, errors: RowErrors) -> Iterator[PairRow]:
        """All valid pairs in file order; invalid rows are reported to `errors`.

        A missing file raises here, errors in its contents while iterating.
        """
        read = FORMATS[self.format_name]
        self._check_columns()
        paths = [self.path] if self.target_path is None else [self.path, self.target_path]
        files = [TextFile(path=path, max_line_bytes=self.max_line_bytes) for path in paths]
        for file in files:
            file.check()
        columns = Columns(self.source_column, self.target_column, self.header)
        return self._clean(read(files, columns=columns, errors=errors), errors=errors)

    def _check_columns(self) -> None:
        """Raise on a header or column names that the format does not have."""
        name, columns = self.format_name, (self.source_column, self.target_column)
        if self.header and name not in HEADER_FORMATS:
            raise RegardError(
                f"Format '{name}' has no header. Remove --header; it is for "
                f"{' and '.join(HEADER_FORMATS)}."
            )
        if name in FIXED_COLUMNS and not set(columns) <= {0, 1}:
            raise RegardError(
                f"Columns {columns[0]!r} and {columns[1]!r}: format '{name}' has only the columns "
                f"0 ({FIXED_COLUMNS[name][0]}) and 1 ({FIXED_COLUMNS[name][1]}). Use these."
            )

    def _clean(self, rows: Iterator[PairRow], *, errors: RowErrors) -> Iterator[PairRow]:
        usable, count_before, listed_before = 0, errors.count, len(errors.rows)
        for row in rows:
            texts = [normalize("NFC", text).strip(" \t\n") for text in row[:2]]
            for side, text in zip(SIDES, texts, strict=True):
                if BLANK.match(text) or CONTROL_CHARACTERS.search(text):
                    column = self.source_column if side == "source" else self.target_column
                    reason = text_error(side, text)
                    errors.report(path=self._file_of(column), line=row.line, reason=reason)
                    break
            else:
                usable += 1
                yield PairRow(texts[0], texts[1], row.line)
        if not usable:
            count, first = errors.count - count_before, [*errors.rows[listed_before:], None][0]
            why = f" ({count:,} errors; the first: {first})" if first else ""
            raise RegardError(
                f"'{self.path}' has no valid row{why}. Check the format and the columns "
                "(--format, --source-column, --target-column)."
            )

    def _file_of(self, column: int | str) -> Path:
        """The file of a column: of two parallel files, column 1 is the second."""
        return self.target_path if self.target_path is not None and column == 1 else self.path


def text_error(side: str, text: str) -> str:
    """Why a text is invalid: empty, or with a control character."""
    found = CONTROL_CHARACTERS.search(text)
    if found is None:
        return f"empty {side}"
    kind = "NUL character" if found[0] == "\0" else "control character"
    return f"{kind}: U+{ord(found[0]):04X} at character {found.start()} of the {side}"


def parse_column(column: int | str) -> int | str:
    """A column from the command line; digits are an index."""
    return int(column) if isinstance(column, str) and column.isdecimal() else column
