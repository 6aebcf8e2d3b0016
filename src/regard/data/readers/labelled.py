"""Texts with a label from a file, row by row, read by the readers of pairs: the text is the source.

    labelled    sports Who won the final ?      the label, one space, the text
    tsv, csv    sports⇥Who won the final?       columns by number, or by name under a header
    jsonl       {"label": …, "text": …}         an object with keys, or a list, a line

Texts and labels are cleaned as those of `pair_rows` are, and bad rows go the same way; but texts from the
web often hold marks of Windows-1252, which are put right (`windows_marks.py`) and not refused. A first row
that seems to name the columns, where none was announced, is an error (`header_guess.py`).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.registry import look_up
from regard.data.readers.formats import (
    EXTENSIONS,
    FORMATS,
    NAMED_COLUMNS,
    Columns,
    PairRow,
    Reader,
    column_number,
    csv_records,
    json_label,
    json_rows,
    table_rows,
)
from regard.data.readers.pairs import BLANK, UNWANTED, fault_of
from regard.data.readers.text_file import BadRows, TextFile, filled_lines, good_lines

# Which columns of a file hold the text and the label: as told, else the usual ones, and never the
# same.
#
# nothing told          label⇥text one told by number    the other is the usual one; where that is
# taken, the other of the first two one told by name      the other of two columns; of more, both
# must be told
#
# A column is a number from 0, a name in the first row (tsv, csv) or a key (jsonl).


Column = int | str

# Where a label and a text stand unless told: numbers, or the keys of an object.
USUAL_COLUMNS: dict[str, tuple[Column, Column]] = {
    "labelled": (0, 1),
    "tsv": (0, 1),
    "csv": (0, 1),
    "jsonl": ("label", "text"),
}


def labelled_columns(
    file: TextFile,
    *,
    format_name: str,
    text: Column | None,
    label: Column | None,
    header: bool,
) -> Columns:
    """The columns of the text (source) and the label (target); names of a header become numbers."""
    if format_name in NAMED_COLUMNS and (isinstance(text, str) or isinstance(label, str)):
        names = _first_row(file, format_name)
        if names is not None:
            header = True
            text, label = _by_header(file, names, text, label)
    usual_label, usual_text = USUAL_COLUMNS[format_name]
    if label is None:
        label = 1 if text == usual_label == 0 else usual_label
    if text is None:
        text = 0 if label == usual_text == 1 else usual_text
    if text == label:
        raise RegardError(
            f"The text and the label are both read from column {text!r} of '{file.path}'. Say where "
            "each stands: --source-column for the text, --target-column for the label."
        )
    return Columns(text, label, header)


def _first_row(file: TextFile, format_name: str) -> list[str] | None:
    """The names of the columns; None, if they cannot be read, which is told when the rows are."""
    unread = BadRows(skip=True)
    if format_name == "csv":
        line, names = next(csv_records(file, bad=unread), (0, []))
    else:
        lines = ((number, text.split("\t")) for number, text in good_lines(file.lines(bad=unread)))
        line, names = next(lines, (0, []))
    return names if line == 1 else None


def _by_header(
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
            others = [name for place, name in enumerate(names) if place != given]
            raise RegardError(
                f"'{file.path}' has {len(names)} columns, and which one holds the {what} is not said. "
                f"Name it with {option}: {', '.join(others) or 'there is no other'}."
            )
        numbers[missing] = 1 - given
    found_text, found_label = numbers
    assert found_text is not None
    assert found_label is not None
    return found_text, found_label


# Whether the first row of a labelled file, read as a row, is in truth the names of the columns.
#
# label⇥text              names that columns often have: told at once mood⇥words              a
# label that never comes again, though every other comes several times, good⇥A fine film.
# beside a text as short as a name: told when the file was read
#
# A label that is rare in truth may stand in the first row. So one that comes once is not enough:
# the others must be common and the text no sentence. Who is refused wrongly can move the row.


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LABEL_NAMES = _names(
    "label labels class classes category sentiment polarity target rating stars score topic tag "
    "intent emotion language lang genre verdict kind type output y"
)
TEXT_NAMES = _names(
    "text texts review reviews sentence sentences document documents content comment message body "
    "question tweet utterance description abstract headline paragraph post phrase source input x"
)
WORD = re.compile(r"[^\W_]+")
# A name of a column has no more words than this, and none of the marks of a sentence.
MOST_WORDS = 4
LONGEST_NAME = 60
SENTENCE_MARKS = re.compile(r"[.,;:!?…]")
# How often every other label must occur for a single one to be out of place.
SEVERAL = 5


def are_names(label: str, text: str) -> bool:
    """Whether these are names that the two columns often have, in either order.

    >>> are_names("Label", "review_text"), are_names("review", "sentiment"), are_names("text", "Fine.")
    (True, True, False)
    """
    return _are(label, LABEL_NAMES, text, TEXT_NAMES) or _are(label, TEXT_NAMES, text, LABEL_NAMES)


def stands_alone(label: str, text: str, counts: Counter[str]) -> bool:
    """Whether a first row stands apart from all others like a header; `counts` are those of all labels.

    >>> counts = Counter({"mood": 1, "good": 9, "bad": 7})
    >>> stands_alone("mood", "Words", counts), stands_alone("mood", "Sad, he said.", counts)
    (True, False)
    """
    others = [count for other, count in counts.items() if other != label]
    if counts[label] != 1 or not others or min(others) < SEVERAL:
        return False
    short = len(text.split()) <= MOST_WORDS and not SENTENCE_MARKS.search(text)
    return short or _is_name(label, LABEL_NAMES)


def header_error(path: Path, label: str, text: str) -> RegardError:
    """What is said of such a row."""
    if _are(label, TEXT_NAMES, text, LABEL_NAMES):  # the columns are the other way round
        way_out = f"Name the columns: {_named(label, text)}"
    elif max(len(label), len(text)) > LONGEST_NAME:
        way_out = "Give --header"
    else:
        way_out = f"Give --header, or name the columns: {_named(text, label)}"
    shown = [
        repr(field if len(field) <= LONGEST_NAME else f"{field[:LONGEST_NAME]}…")
        for field in (label, text)
    ]
    return RegardError(
        f"The first row of '{path}' seems to name the columns ({', '.join(shown)}), and would be taken "
        f"for a labelled text. {way_out}. If it is one, move it below the next row."
    )


def _named(text: str, label: str) -> str:
    return f"--source-column {shlex.quote(text)} --target-column {shlex.quote(label)}"


def _are(label: str, label_names: frozenset[str], text: str, text_names: frozenset[str]) -> bool:
    return _is_name(label, label_names) and _is_name(text, text_names)


def _is_name(field: str, names: frozenset[str]) -> bool:
    """Whether its last word is such a name, and those before it are names of columns too."""
    words = WORD.findall(field.casefold())
    return bool(words) and words[-1] in names and set(words) <= LABEL_NAMES | TEXT_NAMES


# Control characters in texts from the web, put right.
#
# U+0093 hello U+0094  →  “hello”        U+0085  →  …        U+0008  →  a space
#
# Dashes and quotes of Windows-1252 whose bytes were taken for Latin-1 have become control
# characters, which nobody writes; they are what they were. A control character that is nothing in
# Windows-1252 either is a space. Tabs, ends of lines and NULs stay.


# A NUL is the sign of a file that is no text.
KEPT = "\0\t\n\r"


def _meant(number: int) -> str:
    meant = bytes([number]).decode("cp1252", errors="replace")
    return meant if meant.isprintable() and meant != "\ufffd" else " "


MEANT = {
    number: _meant(number)
    for number in (*range(0x20), *range(0x7F, 0xA0))
    if chr(number) not in KEPT
}


def with_windows_marks(text: str) -> str:
    """The text with the marks that were meant.

    >>> with_windows_marks("so\\x97so")
    'so—so'
    """
    return text.translate(MEANT)


HINT = (
    "Name the format with --format, the columns with --source-column (the text) and --target-column "
    "(the label), fix the line"
)
# A document is a line. What is longer is not held in memory, unless it is asked for.
MAX_LINE_BYTES = 1_000_000
LIMIT_OPTION = "task.max_line_bytes (of predict: --max-line-bytes)"
# With more labels than these the first row is not looked at any further.
MOST_LABELS = 10_000


class LabelledRow(NamedTuple):
    """A text, its label, and the line they begin on, counted from 1."""

    text: str
    label: str
    line: int


def read_labelled(
    files: Sequence[TextFile], *, columns: Columns, bad: BadRows
) -> Iterator[PairRow]:
    """The label up to the first space, the text after it."""
    (file,) = files
    lines = filled_lines(file.lines(bad=bad))
    table = ((number, list(line.partition(" ")[::2])) for number, line in lines)
    return table_rows(table, file=file, columns=columns, bad=bad)


def read_labelled_jsonl(
    files: Sequence[TextFile], *, columns: Columns, bad: BadRows
) -> Iterator[PairRow]:
    """A JSON object or list on every line, whose label may be a whole number."""
    (file,) = files
    return json_rows(file, columns=columns, bad=bad, target_of=json_label)


LABELLED_FORMATS: dict[str, Reader] = {
    "labelled": read_labelled,
    **{name: FORMATS[name] for name in ("tsv", "csv")},
    "jsonl": read_labelled_jsonl,
}


@dataclass(frozen=True, kw_only=True)
class LabelledSource:
    """Where labelled texts are, and how they are written there.

    The format follows from the file's name unless it is given, and is `labelled` where the name does not
    say it. Columns are as for `PairSource`; those that are not given are as `labelled_columns.py` says.
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
                raise RegardError(f"Column {column}: columns are counted from 0. Use 0 or more.")
        if name == "labelled" and given:
            raise RegardError(
                f"Column {given[0]!r}: format 'labelled' has no columns, but a label, one space and the "
                "text. Leave the columns out, or name another format with --format."
            )
        if self.header and name not in NAMED_COLUMNS:
            raise RegardError(
                f"Format '{name}' has no header. Leave --header out; it is for "
                f"{' and '.join(NAMED_COLUMNS)}."
            )

    @property
    def format_name(self) -> str:
        """The format that was given, or that follows from the file's name."""
        if self.format is not None:
            look_up("format", self.format, LABELLED_FORMATS)
            return self.format
        found = EXTENSIONS.get(Path(self.path.name.lower().removesuffix(".gz")).suffix)
        return found if found in LABELLED_FORMATS else "labelled"

    def rows(self, *, bad: BadRows) -> Iterator[LabelledRow]:
        """Every labelled text in the order of the file; rows that cannot be used go to `bad`."""
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
        rows = self._clean(read([file], columns=columns, bad=_InOurWords(bad)), bad=bad)
        return rows if columns.header or name not in NAMED_COLUMNS else self._without_header(rows)

    def _without_header(self, rows: Iterator[LabelledRow]) -> Iterator[LabelledRow]:
        """The rows, unchanged; an error, if the first one seems to name the columns."""
        first: LabelledRow | None = None
        counts: Counter[str] = Counter()
        for row in rows:
            if row.line == 1:
                first = row
                if are_names(row.label, row.text):
                    raise header_error(self.path, row.label, row.text)
            if first is not None:
                counts[row.label] += 1
                if counts[first.label] > 1 or len(counts) > MOST_LABELS:
                    first = None
            yield row
        if first is not None and stands_alone(first.label, first.text, counts):
            raise header_error(self.path, first.label, first.text)

    def _clean(self, rows: Iterator[PairRow], *, bad: BadRows) -> Iterator[LabelledRow]:
        usable = False
        for row in rows:
            text, label = (
                normalize("NFC", with_windows_marks(part)).strip(" \t\n") for part in row[:2]
            )
            for side, part in (("text", text), ("label", label)):
                if BLANK.match(part) or UNWANTED.search(part):
                    bad.report(path=self.path, line=row.line, reason=fault_of(side, part))
                    break
            else:
                usable = True
                yield LabelledRow(text, label, row.line)
        if not usable:
            raise RegardError(
                f"No row of '{self.path}' can be used ({bad.count:,} bad). Check the format and the "
                "columns (--format, --source-column, --target-column)."
            )


class _InOurWords(BadRows):
    """Passes bad rows on; what the readers of pairs advise is said of texts and labels."""

    def __init__(self, bad: BadRows) -> None:
        super().__init__(skip=bad.skip)
        self._bad = bad

    def report(self, *, path: Path, line: int, reason: str, hint: str = "") -> None:
        self._bad.report(
            path=path,
            line=line,
            reason=reason,
            hint=HINT if "--format" in hint or "--source-column" in hint else hint,
        )
