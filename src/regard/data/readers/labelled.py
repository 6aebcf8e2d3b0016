"""Labelled texts for classification, streamed from a file.

    labelled    sports Who won the final ?      label, one space, text
    tsv, csv    sports⇥Who won the final?       columns by index, or by name under a header
    jsonl       {"label": …, "text": …}         one object or list per line

Texts and labels are cleaned, and row errors reported, as for pairs (`pairs.py`). In addition, Windows-1252
characters that were decoded as Latin-1 are repaired (`repair_cp1252`). Header detection: a first row that
looks like column names is an error unless `header` is set.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.data.readers.formats import (
    EXTENSIONS,
    HEADER_FORMATS,
    Columns,
    PairRow,
    Reader,
    column_number,
    csv_records,
    json_label,
    json_rows,
    read_csv,
    read_tsv,
    table_rows,
)
from regard.data.readers.pairs import BLANK, CONTROL_CHARACTERS, text_error
from regard.data.readers.text_file import RowErrors, TextFile, decoded_lines, nonblank_lines

Column = int | str

# Default columns of label and text: indices, or the keys of an object.
DEFAULT_COLUMNS: dict[str, tuple[Column, Column]] = {
    "labelled": (0, 1),
    "tsv": (0, 1),
    "csv": (0, 1),
    "jsonl": ("label", "text"),
}
COLUMN_HINT = (
    "Set the format with --format, the columns with --source-column (the text) and --target-column "
    "(the label), fix the line"
)
MAX_LINE_BYTES = 1_000_000
LIMIT_OPTION = "task.max_line_bytes (of predict: --max-line-bytes)"

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


class LabelledRow(NamedTuple):
    """A text, its label, and the line they begin on, numbered from 1."""

    text: str
    label: str
    line: int


def read_labelled(
    files: Sequence[TextFile], *, columns: Columns, errors: RowErrors
) -> Iterator[PairRow]:
    """The label up to the first space, then the text."""
    (file,) = files
    lines = nonblank_lines(file.lines(errors=errors))
    records = ((number, list(line.partition(" ")[::2])) for number, line in lines)
    return table_rows(records, file=file, columns=columns, errors=errors)


def read_labelled_jsonl(
    files: Sequence[TextFile], *, columns: Columns, errors: RowErrors
) -> Iterator[PairRow]:
    """One JSON object or list per line; labels may be integers."""
    (file,) = files
    return json_rows(file, columns=columns, errors=errors, parse_target=json_label)


LABELLED_FORMATS: dict[str, Reader] = {
    "labelled": read_labelled,
    "tsv": read_tsv,
    "csv": read_csv,
    "jsonl": read_labelled_jsonl,
}


@dataclass(frozen=True, kw_only=True)
class LabelledSource:
    """A file of labelled texts and its format.

    The format defaults to the one of the file's extension, and to `labelled` for an unknown extension.
    Columns are as for `PairSource`, with the defaults of `labelled_columns`.
    """

    path: Path
    format: str | None = None
    text_column: int | str | None = None
    label_column: int | str | None = None
    header: bool = False
    max_line_bytes: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        name = self.format_name
        given = [column for column in (self.text_column, self.label_column) if column is not None]
        for column in given:
            if isinstance(column, int) and column < 0:
                raise RegardError(f"Column {column}: columns are numbered from 0. Use 0 or more.")
        if name == "labelled" and given:
            raise RegardError(
                f"Column {given[0]!r}: format 'labelled' has no columns, but a label, one space and the "
                "text. Remove the columns, or set another format with --format."
            )
        if self.header and name not in HEADER_FORMATS:
            raise RegardError(
                f"Format '{name}' has no header. Remove --header; it is for "
                f"{' and '.join(HEADER_FORMATS)}."
            )

    @property
    def format_name(self) -> str:
        """The given format, or the one of the file's extension."""
        if self.format is not None:
            lookup("format", self.format, LABELLED_FORMATS)
            return self.format
        found = EXTENSIONS.get(Path(self.path.name.lower().removesuffix(".gz")).suffix)
        return found if found in LABELLED_FORMATS else "labelled"

    def rows(self, *, errors: RowErrors) -> Iterator[LabelledRow]:
        """All valid rows in file order; invalid rows are reported to `errors`."""
        file = TextFile(
            path=self.path, max_line_bytes=self.max_line_bytes, limit_option=LIMIT_OPTION
        )
        file.check()
        name = self.format_name
        columns = labelled_columns(
            file,
            format_name=name,
            text=self.text_column,
            label=self.label_column,
            header=self.header,
        )
        read = LABELLED_FORMATS[name]
        raw = read([file], columns=columns, errors=_LabelledRowErrors(errors))
        rows = self._clean(raw, errors=errors)
        return rows if columns.header or name not in HEADER_FORMATS else self._check_header(rows)

    def _check_header(self, rows: Iterator[LabelledRow]) -> Iterator[LabelledRow]:
        """The rows, unchanged; raises if the first one looks like a header."""
        first: LabelledRow | None = None
        counts: Counter[str] = Counter()
        for row in rows:
            if row.line == 1:
                first = row
                if are_column_names(row.label, row.text):
                    raise header_error(self.path, row.label, row.text)
            if first is not None:
                counts[row.label] += 1
                if counts[first.label] > 1 or len(counts) > MAX_COUNTED_LABELS:
                    first = None
            yield row
        if first is not None and is_outlier_row(first.label, first.text, counts):
            raise header_error(self.path, first.label, first.text)

    def _clean(self, rows: Iterator[PairRow], *, errors: RowErrors) -> Iterator[LabelledRow]:
        any_valid = False
        for row in rows:
            text, label = (
                normalize("NFC", repair_cp1252(field)).strip(" \t\n") for field in row[:2]
            )
            for name, field in (("text", text), ("label", label)):
                if BLANK.match(field) or CONTROL_CHARACTERS.search(field):
                    errors.report(path=self.path, line=row.line, reason=text_error(name, field))
                    break
            else:
                any_valid = True
                yield LabelledRow(text, label, row.line)
        if not any_valid:
            raise RegardError(
                f"'{self.path}' has no valid row ({errors.count:,} errors). Check the format and the "
                "columns (--format, --source-column, --target-column)."
            )


class _LabelledRowErrors(RowErrors):
    """Forwards row errors, with hints for texts and labels in place of sources and targets."""

    def __init__(self, errors: RowErrors) -> None:
        super().__init__(skip=errors.skip)
        self._errors = errors

    def report(self, *, path: Path, line: int, reason: str, hint: str = "") -> None:
        self._errors.report(
            path=path,
            line=line,
            reason=reason,
            hint=COLUMN_HINT if "--format" in hint or "--source-column" in hint else hint,
        )


def labelled_columns(
    file: TextFile,
    *,
    format_name: str,
    text: Column | None,
    label: Column | None,
    header: bool,
) -> Columns:
    """The columns of the text (source) and the label (target); header names become indices.

    By default label and text are the first two columns. With one of them given by index, the other is
    its default, or else the other of the first two. With one given by name, the other is the other of
    two columns; with more columns, both must be given.
    """
    if format_name in HEADER_FORMATS and (isinstance(text, str) or isinstance(label, str)):
        names = _header_row(file, format_name)
        if names is not None:
            header = True
            text, label = _resolve_names(file, names, text, label)
    default_label, default_text = DEFAULT_COLUMNS[format_name]
    if label is None:
        label = 1 if text == default_label == 0 else default_label
    if text is None:
        text = 0 if label == default_text == 1 else default_text
    if text == label:
        raise RegardError(
            f"Text and label are both read from column {text!r} of '{file.path}'. Set "
            "--source-column for the text and --target-column for the label."
        )
    return Columns(text, label, header)


def _header_row(file: TextFile, format_name: str) -> list[str] | None:
    """The column names; None if the row is invalid, which is reported when the rows are read."""
    ignored = RowErrors(skip=True)
    if format_name == "csv":
        line, names = next(csv_records(file, errors=ignored), (0, []))
    else:
        lines = file.lines(errors=ignored)
        records = ((number, text.split("\t")) for number, text in decoded_lines(lines))
        line, names = next(records, (0, []))
    return names if line == 1 else None


def _resolve_names(
    file: TextFile, names: list[str], text: Column | None, label: Column | None
) -> tuple[Column, Column]:
    numbers = [
        None if column is None else column_number(file, names, column) for column in (text, label)
    ]
    if None in numbers:
        missing = numbers.index(None)
        given = numbers[1 - missing]
        if len(names) != 2 or given not in (0, 1):
            what, option = (("text", "--source-column"), ("label", "--target-column"))[missing]
            others = [name for index, name in enumerate(names) if index != given]
            raise RegardError(
                f"'{file.path}' has {len(names)} columns: the column of the {what} is ambiguous. "
                f"Set {option}: {', '.join(others) or 'there is no other'}."
            )
        numbers[missing] = 1 - given
    found_text, found_label = numbers
    assert found_text is not None
    assert found_label is not None
    return found_text, found_label


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
