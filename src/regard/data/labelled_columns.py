"""Which columns of a file hold the text and the label: as told, else the usual ones, and never the same.

    nothing told          label⇥text
    one told by number    the other is the usual one; where that is taken, the other of the first two
    one told by name      the other of two columns; of more, both must be told

A column is a number from 0, a name in the first row (tsv, csv) or a key (jsonl).
"""

from __future__ import annotations

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.row_formats import NAMED_COLUMNS, Columns, column_number
from regard.data.row_records import csv_records
from regard.data.text_lines import TextFile, good_lines

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
