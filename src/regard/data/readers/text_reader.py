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
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.data.readers.formats import (
    EXTENSIONS,
    FIXED_COLUMNS,
    FORMATS,
    HEADER_FORMATS,
    JsonColumnError,
    Record,
    column_number,
    header_row,
    json_field,
)
from regard.data.readers.text_file import Row, RowErrors, TextFile, file_exists

Column = int | str
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
    (tsv, csv) or a key (jsonl). `header` skips the first row where columns are given by index.
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
        limit = self.max_line_bytes or MAX_LINE_BYTES.get(self.target, LARGE_LINE_BYTES)
        option = LIMIT_OPTION if self.target in ("label", "number") else ""
        paths = [self.path] if self.target_path is None else [self.path, self.target_path]
        files = [TextFile(path=path, max_line_bytes=limit, limit_option=option) for path in paths]
        for file in files:
            file.check()
        columns, has_header = self._columns(files[0], name, errors)
        records = FORMATS[name](*files, errors=errors)
        if has_header:
            header_row(files[0], name, errors=RowErrors(skip=errors.skip))
            next(records)
        rows = self._clean(self._select(records, columns, errors=errors), columns, errors=errors)
        detect = self.target == "label" and not has_header and name in HEADER_FORMATS
        return check_header(rows, self.path) if detect else rows

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

    def _columns(
        self, file: TextFile, name: str, errors: RowErrors
    ) -> tuple[tuple[Column, Column], bool]:
        """The columns of input and target, names resolved to indices, and whether there is a header.

        With one of them given by index, the other is its default, or else the other of the first two. With
        one given by name, the other is the other of two columns; with more columns, both must be given.
        """
        source, target, header = self.source_column, self.target_column, self.header
        if name in HEADER_FORMATS and (isinstance(source, str) or isinstance(target, str)):
            header = True
            names = header_row(file, name, errors=RowErrors(skip=errors.skip))
            source, target = self._resolve_names(file, names, source, target)
        defaults = DEFAULT_COLUMNS.get(self.target, (1, 0))
        if name == "jsonl":
            defaults = JSON_COLUMNS[self.target]
        if target is None:
            target = defaults[0 if isinstance(source, int) and source == defaults[1] else 1]
        if source is None:
            source = defaults[1 if isinstance(target, int) and target == defaults[0] else 0]
        if source == target and self.target != "none":
            first, second = SIDES[self.target]
            raise RegardError(
                f"{first.capitalize()} and {second} are both read from column {source!r} of "
                f"'{file.path}'. Set --source-column for the {first} and --target-column for the {second}."
            )
        return (source, target), header

    def _resolve_names(
        self, file: TextFile, names: list[str], source: Column | None, target: Column | None
    ) -> tuple[int, int]:
        found = [
            None if one is None else column_number(file, names, one) for one in (source, target)
        ]
        if None in found:
            missing = found.index(None)
            given = found[1 - missing]
            if len(names) != 2 or given not in (0, 1):
                what = SIDES[self.target][missing]
                option = ("--source-column", "--target-column")[missing]
                others = [name for index, name in enumerate(names) if index != given]
                raise RegardError(
                    f"'{file.path}' has {len(names)} columns: the column of the {what} is ambiguous. "
                    f"Set {option}: {', '.join(others) or 'there is no other'}."
                )
            found[missing] = 1 - given
        return found[0], found[1]  # type: ignore[return-value]

    @property
    def _column_hint(self) -> str:
        """The way out of an error about columns."""
        first, second = SIDES[self.target]
        return (
            f"Set the format with --format, the columns with --source-column (the {first}) and "
            f"--target-column (the {second})"
            + (", or give two parallel files as FIRST,SECOND" if self.target == "text" else "")
            + ". Otherwise fix the line"
        )

    def _select(
        self, records: Iterator[Record], columns: tuple[Column, Column], *, errors: RowErrors
    ) -> Iterator[tuple[int, str, str]]:
        """Line, input and target of every record that has these columns."""
        source, target = columns
        kinds = {"label": (int,), "number": (int, float)}.get(self.target, ())
        is_json = self.format_name == "jsonl"
        for number, (line, fields) in enumerate(records):
            if is_json:
                try:
                    yield (
                        line,
                        json_field(fields, source),
                        json_field(fields, target, kinds=kinds),
                    )
                except JsonColumnError as error:
                    hint = self._column_hint if "missing key" in str(error) else error.hint
                    errors.report(path=self.path, line=line, reason=str(error), hint=hint)
                continue
            last = max(int(source), int(target))
            if last < len(fields):
                yield line, fields[int(source)], fields[int(target)]
                continue
            hint = self._column_hint if number == 0 and len(fields) == 1 else ""
            reason = f"too few columns: {len(fields)}, {last + 1} are needed"
            errors.report(path=self.path, line=line, reason=reason, hint=hint)

    def _clean(
        self,
        rows: Iterator[tuple[int, str, str]],
        columns: tuple[Column, Column],
        *,
        errors: RowErrors,
    ) -> Iterator[Row]:
        usable, count_before, listed_before = 0, errors.count, len(errors.rows)
        first, second = SIDES[self.target]
        repair = repair_cp1252 if self.target in ("label", "number") else str
        for line, *fields in rows:
            texts = [normalize("NFC", repair(text)).strip(" \t\n") for text in fields]
            sides = zip((first, second), texts, columns, strict=True)
            for side, text, column in sides:
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
            raise RegardError(
                f"'{self.path}' has no valid row{why}. Check the format and the columns "
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


# Header detection.

LABEL_NAMES = frozenset(
    {"label", "labels", "class", "classes", "category", "sentiment", "polarity", "target"}
    | {"rating", "stars", "score", "topic", "tag", "intent", "emotion", "language", "lang"}
    | {"genre", "verdict", "kind", "type", "output", "y"}
)
TEXT_NAMES = frozenset(
    {"text", "texts", "review", "reviews", "sentence", "sentences", "document", "documents"}
    | {"content", "comment", "message", "body", "question", "tweet", "utterance", "description"}
    | {"abstract", "headline", "paragraph", "post", "phrase", "source", "input", "x"}
)
WORD = re.compile(r"[^\W_]+")
SENTENCE_PUNCTUATION = re.compile(r"[.,;:!?…]")
MAX_NAME_WORDS = 4
MAX_NAME_LENGTH = 60
# A label that occurs once looks like a header only if every other label occurs at least so often.
MIN_LABEL_COUNT = 5
# With more labels than this, header detection by label counts is off.
MAX_COUNTED_LABELS = 10_000


def check_header(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """The labelled rows, unchanged; raises if the first one looks like a header."""
    first: Row | None = None
    counts: Counter[str] = Counter()
    for row in rows:
        if row.line == 1:
            first = row
            if are_column_names(row.target, row.input):
                raise header_error(path, row.target, row.input)
        if first is not None:
            counts[row.target] += 1
            if counts[first.target] > 1 or len(counts) > MAX_COUNTED_LABELS:
                first = None
        yield row
    if first is not None and is_outlier_row(first.target, first.input, counts):
        raise header_error(path, first.target, first.input)


def are_column_names(label: str, text: str) -> bool:
    """Whether both fields are common column names, in either order.

    >>> are_column_names("Label", "review_text"), are_column_names("review", "sentiment")
    (True, True)
    """
    in_order = _is_name(label, LABEL_NAMES) and _is_name(text, TEXT_NAMES)
    return in_order or _is_swapped_header(label, text)


def is_outlier_row(label: str, text: str, counts: Counter[str]) -> bool:
    """Whether a first row differs from all others as a header does; `counts` are the label counts.

    Its label occurs once, all other labels are common, and its text is as short as a column name. A
    rare label alone is not enough.

    >>> counts = Counter({"mood": 1, "good": 9, "bad": 7})
    >>> is_outlier_row("mood", "Words", counts), is_outlier_row("mood", "Sad, he said.", counts)
    (True, False)
    """
    others = [count for other, count in counts.items() if other != label]
    if counts[label] != 1 or not others or min(others) < MIN_LABEL_COUNT:
        return False
    short = len(text.split()) <= MAX_NAME_WORDS and not SENTENCE_PUNCTUATION.search(text)
    return short or _is_name(label, LABEL_NAMES)


def header_error(path: Path, label: str, text: str) -> RegardError:
    """The error for a first row that looks like a header."""
    swapped = _is_swapped_header(label, text)
    text_name, label_name = (label, text) if swapped else (text, label)
    columns = f"--source-column {shlex.quote(text_name)} --target-column {shlex.quote(label_name)}"
    if swapped:
        way_out = f"Name the columns: {columns}"
    elif max(len(label), len(text)) > MAX_NAME_LENGTH:
        way_out = "Set --header"
    else:
        way_out = f"Set --header, or name the columns: {columns}"
    shown = [
        repr(field if len(field) <= MAX_NAME_LENGTH else f"{field[:MAX_NAME_LENGTH]}…")
        for field in (label, text)
    ]
    return RegardError(
        f"The first row of '{path}' looks like a header ({', '.join(shown)}), but would be read as an "
        f"example. {way_out}. If it is an example, move it below the next row."
    )


def _is_swapped_header(label: str, text: str) -> bool:
    return _is_name(label, TEXT_NAMES) and _is_name(text, LABEL_NAMES)


def _is_name(field: str, names: frozenset[str]) -> bool:
    """Whether the last word is one of `names`, and the words before it are column names too."""
    words = WORD.findall(field.casefold())
    return bool(words) and words[-1] in names and set(words) <= LABEL_NAMES | TEXT_NAMES


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
