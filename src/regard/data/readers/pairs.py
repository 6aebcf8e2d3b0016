"""Pairs of texts from a file, row by row: the whole file is never in memory.

    source = PairSource.from_text("train.de.gz,train.en.gz")
    for row in source.rows(bad=BadRows(skip=True)):
        row.source, row.target, row.line

Every text is brought to Unicode NFC and has no spaces, tabs or newlines at its ends. A text that is
empty or holds control characters makes its row a bad one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.registry import look_up
from regard.data.readers.formats import (
    EXTENSIONS,
    FORMATS,
    NAMED_COLUMNS,
    TWO_COLUMNS,
    Columns,
    PairRow,
)
from regard.data.readers.text_file import BadRows, TextFile, is_there

SIDES = ("source", "target")

# What no text may hold; a tab or a newline inside one is white space. The last are halves of
# characters, which JSON can spell and UTF-8 cannot.
UNWANTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
BLANK = re.compile(r"\s*\Z")


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """Where pairs are, and how they are written there.

    The format follows from the file's name unless it is given; `target_path` makes it two parallel
    files. A column is a number counted from 0, a name in the first row (tsv, csv) or a key (jsonl);
    `header` says that the first row is not a pair though the columns are numbers.
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
            look_up("format", self.format, FORMATS)
        for column in (self.source_column, self.target_column):
            if isinstance(column, int) and column < 0:
                raise RegardError(f"Column {column}: columns are counted from 0. Use 0 or more.")
        if self.max_line_bytes < 1:
            raise RegardError(f"max_line_bytes={self.max_line_bytes}: a row needs 1 or more.")

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        format: str | None = None,  # noqa: A002  (the word of the command line)
        source_column: int | str = 0,
        target_column: int | str = 1,
        header: bool = False,
    ) -> Self:
        """As the command line writes it: one file, or two parallel ones with a comma between.

        A comma in the name of a file that exists is part of its name.
        """
        paths = [text] if is_there(Path(text)) else text.split(",")
        if len(paths) > 2 or not all(paths):
            raise RegardError(
                f"'{text}' is not a file, nor two files with a comma between. "
                "Give FILE, or FIRST,SECOND for parallel files."
            )
        return cls(
            path=Path(paths[0]),
            target_path=Path(paths[1]) if len(paths) == 2 else None,
            format=format,
            source_column=as_column(source_column),
            target_column=as_column(target_column),
            header=header,
        )

    @property
    def format_name(self) -> str:
        """The format that was given, or that follows from the files."""
        if self.format == "lines" and self.target_path is None:
            raise RegardError(
                f"Format 'lines' reads two parallel files, but only '{self.path}' is given. "
                "Give both as FIRST,SECOND."
            )
        if self.target_path is not None:
            if self.format not in {None, "lines"}:
                raise RegardError(
                    f"Format '{self.format}' reads one file, but '{self.path}' and '{self.target_path}' "
                    "are given. Give one file, or leave the format out."
                )
            return "lines"
        if self.format is not None:
            return self.format
        extension = Path(self.path.name.lower().removesuffix(".gz")).suffix
        if extension not in EXTENSIONS:
            raise RegardError(
                f"The format of '{self.path}' does not follow from its name (extensions known: "
                f"{', '.join(EXTENSIONS)}). Name it with --format: {', '.join(FORMATS)}; "
                "or give two parallel files as FIRST,SECOND."
            )
        return EXTENSIONS[extension]

    def rows(self, *, bad: BadRows) -> Iterator[PairRow]:
        """Every pair in the order of the file; rows that cannot be used go to `bad`.

        That there is such a file is looked at now, its contents while they are read.
        """
        read = FORMATS[self.format_name]
        self._check_columns()
        paths = [self.path] if self.target_path is None else [self.path, self.target_path]
        files = [TextFile(path=path, max_line_bytes=self.max_line_bytes) for path in paths]
        for file in files:
            file.check()
        columns = Columns(self.source_column, self.target_column, self.header)
        return self._clean(read(files, columns=columns, bad=bad), bad=bad)

    def _check_columns(self) -> None:
        """Refuse a header or names of columns where the format has none."""
        name, columns = self.format_name, (self.source_column, self.target_column)
        if self.header and name not in NAMED_COLUMNS:
            raise RegardError(
                f"Format '{name}' has no header. Leave --header out; it is for "
                f"{' and '.join(NAMED_COLUMNS)}."
            )
        if name in TWO_COLUMNS and not set(columns) <= {0, 1}:
            raise RegardError(
                f"Columns {columns[0]!r} and {columns[1]!r}: format '{name}' has only the columns "
                f"0 ({TWO_COLUMNS[name][0]}) and 1 ({TWO_COLUMNS[name][1]}). Use these."
            )

    def _clean(self, rows: Iterator[PairRow], *, bad: BadRows) -> Iterator[PairRow]:
        usable, bad_before, kept_before = 0, bad.count, len(bad.rows)
        for row in rows:
            texts = [normalize("NFC", text).strip(" \t\n") for text in row[:2]]
            for side, text in zip(SIDES, texts, strict=True):
                if BLANK.match(text) or UNWANTED.search(text):
                    column = self.source_column if side == "source" else self.target_column
                    reason = fault_of(side, text)
                    bad.report(path=self._file_of(column), line=row.line, reason=reason)
                    break
            else:
                usable += 1
                yield PairRow(texts[0], texts[1], row.line)
        if not usable:
            count, first = bad.count - bad_before, [*bad.rows[kept_before:], None][0]
            why = f" ({count:,} bad; the first: {first})" if first else ""
            raise RegardError(
                f"No row of '{self.path}' can be used{why}. Check the format and the columns "
                "(--format, --source-column, --target-column)."
            )

    def _file_of(self, column: int | str) -> Path:
        """The file a text stands in: of two parallel ones, column 1 is the second."""
        return self.target_path if self.target_path is not None and column == 1 else self.path


def fault_of(side: str, text: str) -> str:
    """What makes a text unusable."""
    unwanted = UNWANTED.search(text)
    if unwanted is None:
        return f"empty {side}"
    kind = "NUL character" if unwanted[0] == "\0" else "control character"
    return f"{kind}: U+{ord(unwanted[0]):04X} at character {unwanted.start()} of the {side}"


def as_column(column: int | str) -> int | str:
    """A column as the command line gives it: digits are a number."""
    return int(column) if isinstance(column, str) and column.isdecimal() else column
