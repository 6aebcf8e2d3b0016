"""Texts with a label from a file, row by row, read by the readers of pairs: the text is the source.

    labelled    sports Who won the final ?      the label, one space, the text
    tsv, csv    sports⇥Who won the final?       columns by number, or by name under a header
    jsonl       {"label": …, "text": …}         an object with keys, or a list, a line

Texts and labels are cleaned as those of `pair_rows` are, and bad rows go the same way; but texts from the
web often hold marks of Windows-1252, which are put right (`windows_marks.py`) and not refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.data.bad_rows import BadRows
from regard.data.pair_rows import BLANK, UNWANTED, fault_of
from regard.data.row_formats import (
    EXTENSIONS,
    FORMATS,
    NAMED_COLUMNS,
    Columns,
    PairRow,
    Reader,
    table_rows,
)
from regard.data.text_lines import TextFile, good_lines
from regard.data.windows_marks import with_windows_marks

HINT = (
    "Name the format with --format, the columns with --source-column (the text) and --target-column "
    "(the label), fix the line"
)


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
    lines = good_lines(file.lines(bad=bad))
    table = ((number, list(line.partition(" ")[::2])) for number, line in lines)
    return table_rows(table, file=file, columns=columns, bad=bad)


LABELLED_FORMATS: dict[str, Reader] = {
    "labelled": read_labelled,
    **{name: FORMATS[name] for name in ("tsv", "csv", "jsonl")},
}

# Where a label and a text stand unless told: numbers, or the keys of an object.
USUAL_COLUMNS: dict[str, tuple[int | str, int | str]] = {
    "labelled": (0, 1),
    "tsv": (0, 1),
    "csv": (0, 1),
    "jsonl": ("label", "text"),
}


@dataclass(frozen=True, kw_only=True)
class LabelledSource:
    """Where labelled texts are, and how they are written there.

    The format follows from the file's name unless it is given, and is `labelled` where the name does not
    say it. Columns are as for `PairSource`; without them the label comes first, then the text.
    """

    path: Path
    format: str | None = None
    text_column: int | str | None = None
    label_column: int | str | None = None
    header: bool = False
    max_line_bytes: int = 1_000_000

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
        file = TextFile(path=self.path, max_line_bytes=self.max_line_bytes)
        file.check()
        label, text = USUAL_COLUMNS[self.format_name]
        columns = Columns(
            text if self.text_column is None else self.text_column,
            label if self.label_column is None else self.label_column,
            self.header,
        )
        read = LABELLED_FORMATS[self.format_name]
        return self._clean(read([file], columns=columns, bad=_InOurWords(bad)), bad=bad)

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
        self._bad.report(path=path, line=line, reason=reason, hint=HINT if "--" in hint else hint)
