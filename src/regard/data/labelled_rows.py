"""Texts with a label from a file, row by row, read by the readers of pairs: the text is the source.

    labelled    sports Who won the final ?      the label, one space, the text
    tsv, csv    sports⇥Who won the final?       columns by number, or by name under a header
    jsonl       {"label": …, "text": …}         an object with keys, or a list, a line

Texts and labels are cleaned as those of `pair_rows` are, and bad rows go the same way; but texts from the
web often hold marks of Windows-1252, which are put right (`windows_marks.py`) and not refused. A first row
that seems to name the columns, where none was announced, is an error (`header_guess.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.data.bad_rows import BadRows
from regard.data.header_guess import are_names, header_error, stands_alone
from regard.data.json_fields import json_label
from regard.data.labelled_columns import labelled_columns
from regard.data.pair_rows import BLANK, UNWANTED, fault_of
from regard.data.row_formats import (
    EXTENSIONS,
    FORMATS,
    NAMED_COLUMNS,
    Columns,
    PairRow,
    Reader,
    json_rows,
    table_rows,
)
from regard.data.text_lines import TextFile, filled_lines
from regard.data.windows_marks import with_windows_marks

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
