"""Texts with targets, streamed from a file: the whole file is never in memory.

    reader = TextReader.from_text("train.de.gz,train.en.gz")
    for row in reader.rows(errors=RowErrors(skip=True)):
        row.input, row.target, row.line

The target of a text is another text, a label, a number, or nothing (`target`), which decides on the formats
a file may have and on its default columns:

    text      tsv, csv, jsonl, dictionary, lines (two files)     source, target
    label     labelled, tsv, csv, jsonl                          label, text; {"label": …, "text": …}
    number    labelled, tsv, csv, jsonl                          number, text; {"value": …, "text": …}
    none      text                                               one text per line

Texts are normalised to Unicode NFC and stripped of white space; an empty text or one with control
characters is a row error. Beside labels and numbers, Windows-1252 characters that were decoded as Latin-1
are repaired, and a first row that looks like column names is an error unless `header` is set.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.data.readers.columns import (
    OPTIONS,
    Column,
    Columns,
    column_numbers,
    columns_text,
    listed,
    split_columns,
)
from regard.data.readers.formats import (
    EXTENSIONS,
    FIXED_COLUMNS,
    FORMATS,
    HEADER_FORMATS,
    JSON_KEYS,
    JsonColumnError,
    Record,
    header_row,
    json_field,
)
from regard.data.readers.header import are_column_names, check_header, header_error, header_note
from regard.data.readers.text_file import Row, RowErrors, TextFile, file_exists
from regard.data.tokenizers.word_level import TAG_SEPARATOR

Target = Literal["text", "label", "number", "none"]
FORMATS_OF: dict[str, tuple[str, ...]] = {
    "text": ("tsv", "csv", "jsonl", "dictionary", "lines"),
    "label": ("labelled", "tsv", "csv", "jsonl"),
    "number": ("labelled", "tsv", "csv", "jsonl"),
    "none": ("text",),
}
# How errors call input and target.
SIDES = {
    "text": ("source", "target"),
    "label": ("text", "label"),
    "number": ("text", "number"),
    "none": ("text", ""),
}
DEFAULT_COLUMNS: dict[str, tuple[Column, Column]] = {"text": (0, 1), "none": (0, 0)}
JSON_COLUMNS: dict[str, tuple[Column, Column]] = {
    "text": (0, 1),
    "label": ("text", "label"),
    "number": ("text", "value"),
}
MAX_LINE_BYTES = {"text": 100_000}
LARGE_LINE_BYTES = 1_000_000
LIMIT_OPTION = "task.max_line_bytes (of predict: --max-line-bytes)"

# Control characters other than tab and newline, and lone surrogates, which JSON can spell.
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
BLANK = re.compile(r"\s*\Z")


@dataclass(frozen=True, kw_only=True)
class TextReader:
    """A file of texts and its format.

    The format defaults to the one of the file's extension, and for an unknown one to `default_format`.
    With `target_path` there are two parallel files. A column is an index from 0, a name in the header row
    (tsv, csv) or a key (jsonl); the source may have several, with a comma between them. `header` skips the
    first row where columns are given by index.
    """

    path: Path
    target: Target = "text"
    target_path: Path | None = None
    format: str | None = None
    default_format: str | None = None
    source_column: Column | None = None
    target_column: Column | None = None
    header: bool = False
    max_line_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            lookup("format", self.format, dict.fromkeys(FORMATS_OF[self.target]))
        given = [one for one in (self.source_column, self.target_column) if one is not None]
        for column in given:
            if isinstance(column, int) and column < 0:
                raise RegardError(f"Column {column}: columns are numbered from 0. Use 0 or more.")
        if self.max_line_bytes is not None and self.max_line_bytes < 1:
            raise RegardError(f"max_line_bytes={self.max_line_bytes}: use 1 or more.")
        if self.target != "text":
            self._check_columns(self.format_name)

    @classmethod
    def from_text(cls, text: str, **options: Any) -> Self:
        """From a command-line argument: FILE, or FIRST,SECOND for two parallel files.

        A comma in the name of an existing file is part of its name. Columns of digits are indices.
        """
        paths = [text]
        if options.get("target", "text") == "text" and not file_exists(Path(text)):
            paths = text.split(",")
        if len(paths) > 2 or not all(paths):
            raise RegardError(
                f"'{text}' is neither a file nor two files separated by a comma. "
                "Give FILE, or FIRST,SECOND for parallel files."
            )
        for name in ("source_column", "target_column"):
            column = options.get(name)
            if isinstance(column, str) and column.isdecimal():
                options[name] = int(column)
        second = Path(paths[1]) if len(paths) == 2 else None
        return cls(path=Path(paths[0]), target_path=second, **options)

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
        found, formats = EXTENSIONS.get(extension), FORMATS_OF[self.target]
        if found in formats:
            return str(found)
        default = self.default_format or (formats[0] if self.target != "text" else None)
        if default is None:
            self._files()[0].check()
            raise RegardError(
                f"Unknown extension of '{self.path}' (known: {', '.join(EXTENSIONS)}). "
                f"Set the format with --format: {', '.join(formats)}; "
                "or give two parallel files as FIRST,SECOND."
            )
        return default

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All valid rows in file order; invalid rows are reported to `errors`.

        A missing file raises here, errors in its contents while iterating.
        """
        name = self.format_name
        self._check_columns(name)
        files = self._files()
        for file in files:
            file.check()
        columns = self._columns(name, errors)
        records = FORMATS[name](*files, errors=errors)
        if columns.header:
            header_row(files[0], name, errors=RowErrors(skip=errors.skip))
            next(records)
        rows = self._clean(self._select(records, columns, errors=errors), columns, errors=errors)
        detect = self.target == "label" and not columns.header and name in HEADER_FORMATS
        return check_header(rows, self.path) if detect else rows

    def all_columns(self) -> list[tuple[str, bool]]:
        """Header names, keys or indices, and whether each is used; empty for a format without columns."""
        name = self.format_name
        if name not in (*HEADER_FORMATS, "jsonl"):
            return []
        columns = self._columns(name, RowErrors(skip=True))
        used: set[Column] = {*columns.sources, columns.target}
        fields = self._first_record(name)
        if isinstance(fields, dict):
            keys = {JSON_KEYS[one] if one in (0, 1) else str(one) for one in used}
            return [(key, key in keys or key == self.source_column) for key in fields]
        return [
            (str(each if columns.header else index), index in used)
            for index, each in enumerate(fields)
        ]

    def _first_record(self, name: str) -> Any:
        records = FORMATS[name](self._files()[0], errors=RowErrors(skip=True))
        return next(records, (0, []))[1]

    @property
    def header_note(self) -> str:
        """A note on a header that is read as a pair; empty if there is none."""
        name = self.format_name
        if self.target != "text" or name not in HEADER_FORMATS:
            return ""
        is_skipped = self._columns(name, RowErrors(skip=True)).header
        return "" if is_skipped else header_note(self._first_record(name))

    @property
    def notice(self) -> str:
        """Notes on columns that are not used, and on a header that is read as a pair; or empty."""
        columns = self.all_columns()
        unused = any(not used for _, used in columns)
        note = f"C{columns_text(columns)[1:]}." if unused else ""
        return f"{note} {self.header_note}".strip()

    def _files(self) -> list[TextFile]:
        limit = self.max_line_bytes or MAX_LINE_BYTES.get(self.target, LARGE_LINE_BYTES)
        option = LIMIT_OPTION if self.target in ("label", "number") else ""
        paths = [self.path] if self.target_path is None else [self.path, self.target_path]
        return [TextFile(path=path, max_line_bytes=limit, limit_option=option) for path in paths]

    def _check_columns(self, name: str) -> None:
        """Raise on a header or columns that the format does not have."""
        if self.header and name not in HEADER_FORMATS:
            raise RegardError(
                f"Format '{name}' has no header. Remove --header; it is for "
                f"{' and '.join(HEADER_FORMATS)}."
            )
        given = [one for one in (self.source_column, self.target_column) if one is not None]
        if name in ("labelled", "text") and given:
            what = "one text per line" if name == "text" else "a label, one space and the text"
            raise RegardError(
                f"Column {given[0]!r}: format '{name}' has no columns, but {what}. Remove the columns, or "
                "set another format with --format."
            )
        if name in FIXED_COLUMNS and not set(given) <= {0, 1}:
            raise RegardError(
                f"Columns {' and '.join(map(repr, given))}: format '{name}' has only the columns "
                f"0 ({FIXED_COLUMNS[name][0]}) and 1 ({FIXED_COLUMNS[name][1]}). Use these."
            )

    def _columns(self, name: str, errors: RowErrors) -> Columns:
        """The columns of input and target; names of a header are resolved to indices.

        If only one of them is given, the other is its default where indices are given. Where names are, it
        is the only other column; with more columns, both must be given.
        """
        defaults = DEFAULT_COLUMNS.get(self.target, (1, 0))
        if name == "jsonl":
            defaults = JSON_COLUMNS[self.target]
        given = (self.source_column, self.target_column)
        found: list[tuple[Column, ...]] = [
            () if given[0] is None else split_columns(given[0]),
            () if given[1] is None else (given[1],),
        ]
        header = self.header
        if name in HEADER_FORMATS:
            header |= any(isinstance(part, str) for side in found for part in side)
        if header:
            names = header_row(self._files()[0], name, errors=RowErrors(skip=errors.skip))
            found = [
                () if one is None else column_numbers(self.path, names, one, option=option)
                for one, option in zip(given, OPTIONS, strict=True)
            ]
            if len(found[1]) > 1:
                raise RegardError(
                    f"--target-column {given[1]}: the {SIDES[self.target][1]} is one column. Name one."
                )
            if any(isinstance(one, str) for one in given):
                found = self._with_other_column(names, found)
        sources, targets = found
        target = targets[0] if targets else defaults[1]
        if not targets and isinstance(target, int):
            order = [target, defaults[0], *range(len(sources) + 1)]
            target = next(one for one in order if one not in sources)
        if not sources:
            swap = isinstance(target, int) and target == defaults[0]
            sources = (defaults[1 if swap else 0],)
        if target in sources and self.target != "none":
            first, second = SIDES[self.target]
            raise RegardError(
                f"{first.capitalize()} and {second} are both read from column {target!r} of "
                f"'{self.path}'. Set --source-column for the {first} and --target-column for the {second}."
            )
        return Columns(sources, target, header)

    def _with_other_column(
        self, names: list[str], found: list[tuple[Column, ...]]
    ) -> list[tuple[Column, ...]]:
        """With one side given by name, the other is the only other column."""
        if all(found):
            return found
        missing = found.index(())
        others = [index for index in range(len(names)) if index not in found[1 - missing]]
        if len(others) != 1:
            what, option = SIDES[self.target][missing], OPTIONS[missing]
            shown = ", ".join(names[index] for index in others) or "there is no other"
            raise RegardError(
                f"'{self.path}' has {len(names)} columns: the column of the {what} is ambiguous. "
                f"Set {option}: {shown}."
            )
        return [side or (others[0],) for side in found]

    def _column_hint(self, fields: Any) -> str:
        """The way out of an error about the columns of a record."""
        first, second = SIDES[self.target]
        has = (
            f"The line has the columns {listed([*map(str, fields)])}. "
            if isinstance(fields, list)
            else ""
        )
        return (
            f"{has}Set the format with --format, the columns with --source-column (the {first}) and "
            f"--target-column (the {second})"
            + (", or give two parallel files as FIRST,SECOND" if self.target == "text" else "")
            + ". Otherwise fix the line"
        )

    def _select(
        self, records: Iterator[Record], columns: Columns, *, errors: RowErrors
    ) -> Iterator[tuple[int, str, str]]:
        """Line, input and target of every record that has these columns; several inputs are joined."""
        sources, target, _ = columns
        kinds = {"label": (int,), "number": (int, float)}.get(self.target, ())
        is_json = self.format_name == "jsonl"
        last = 0 if is_json else max(int(column) for column in (*sources, target))
        for number, (line, fields) in enumerate(records):
            if is_json:
                own = isinstance(fields, dict) and self.source_column in fields
                keys: Any = (self.source_column,) if own else sources
                try:
                    inputs = [json_field(fields, key) for key in keys]
                    answer = json_field(fields, target, kinds=kinds)
                except JsonColumnError as error:
                    missing = "missing key" in str(error)
                    hint = self._column_hint(fields) if missing else error.hint
                    errors.report(path=self.path, line=line, reason=str(error), hint=hint)
                    continue
            elif last < len(fields):
                inputs = [fields[int(column)] for column in sources]
                answer = fields[int(target)]
            else:
                hint = self._column_hint(fields) if number == 0 else ""
                reason = f"too few columns: {len(fields)}, {last + 1} are needed"
                errors.report(path=self.path, line=line, reason=reason, hint=hint)
                continue
            yield line, self._joined(inputs), answer

    def _joined(self, inputs: list[str]) -> str:
        """One text of several columns, joined by a tab for pairs, else by a space."""
        if len(inputs) == 1:
            return inputs[0]
        cleaned = [" ".join(text.split()) for text in inputs]
        return TAG_SEPARATOR.join(cleaned) if self.target == "text" else " ".join(cleaned).strip()

    def _clean(
        self,
        rows: Iterator[tuple[int, str, str]],
        columns: Columns,
        *,
        errors: RowErrors,
    ) -> Iterator[Row]:
        usable, count_before, listed_before = 0, errors.count, len(errors.rows)
        first, second = SIDES[self.target]
        repair = repair_cp1252 if self.target in ("label", "number") else str
        white = " \t\n" if len(columns.sources) == 1 else " \n"
        for line, *fields in rows:
            texts = [normalize("NFC", repair(text)).strip(white) for text in fields]
            found_in = (columns.sources[0], columns.target)
            for side, text, column in zip((first, second), texts, found_in, strict=True):
                reason = text_error(side, text)
                if side == "number" and not reason and parse_number(text) is None:
                    if line == 1 and are_column_names(text, texts[0]):
                        raise header_error(self.path, text, texts[0])
                    reason = f"not a number: {text[:40]!r}"
                if side and reason:
                    errors.report(path=self._file_of(column), line=line, reason=reason)
                    break
            else:
                usable += 1
                target: Any = texts[1]
                if self.target == "number":
                    target = parse_number(texts[1])
                yield Row(texts[0], None if self.target == "none" else target, line)
        if not usable:
            count, found = errors.count - count_before, [*errors.rows[listed_before:], None][0]
            why = f" ({count:,} errors; the first: {found})" if found else ""
            names = ", ".join(name for name, _ in self.all_columns())
            has = f"; the file has the columns {names}" if names else ""
            raise RegardError(
                f"'{self.path}' has no valid row{why}{has}. Check the format and the columns "
                "(--format, --source-column, --target-column)."
            )

    def _file_of(self, column: Column) -> Path:
        """The file of a column: of two parallel files, column 1 is the second."""
        return self.target_path if self.target_path is not None and column == 1 else self.path


def text_error(side: str, text: str) -> str:
    """Why a text is invalid: empty, or with a control character; an empty string if it is valid."""
    found = CONTROL_CHARACTERS.search(text)
    if found is None:
        return f"empty {side}" if BLANK.match(text) else ""
    kind = "NUL character" if found[0] == "\0" else "control character"
    return f"{kind}: U+{ord(found[0]):04X} at character {found.start()} of the {side}"


def parse_number(text: str) -> float | None:
    """The finite number that a text spells, else None.

    >>> parse_number("7.5"), parse_number("nan"), parse_number("7,5")
    (7.5, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def repair_cp1252(text: str) -> str:
    """Repair mojibake: Windows-1252 quotes and dashes that were decoded as Latin-1.

    >>> repair_cp1252("so\\x97so")
    'so—so'
    """
    return text.translate(_cp1252_table())


@cache
def _cp1252_table() -> dict[int, str]:
    """Control character → the Windows-1252 character of that byte, or a space if it has none.

    Tab and line endings stay; so does NUL, the sign of a binary file.
    """
    table = {}
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        if chr(code) not in "\0\t\n\r":
            character = bytes([code]).decode("cp1252", errors="replace")
            valid = character.isprintable() and character != "\ufffd"
            table[code] = character if valid else " "
    return table
