"""The records of formats that are more than a line cut at tabs: CSV, dictionary, parallel files.

A record is the line it begins on and its fields.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import zip_longest

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.text_lines import TextFile, good_lines

COMMENTS = (";;;", "##")
ANOTHER_PRONUNCIATION = re.compile(r"\(\d+\)$")


def csv_records(file: TextFile, *, bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    """Records and the line each begins on. A record with a bad line in it is left out with that line."""
    unusable: set[int] = set()

    def physical() -> Iterator[str]:
        for line in file.lines(bad=bad):
            if line.text is None:
                unusable.add(line.number)
            yield f"{line.text or ''}\n"

    reader = csv.reader(physical(), strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            fields = _next(reader, limit=file.max_line_bytes)
        except StopIteration:
            return
        except csv.Error as error:
            unusable.clear()
            reason = f"not CSV: {error} (lines {begin} to {reader.line_num})"
            hint = "Check the quotes"
            if "field limit" in str(error):  # lines of a quoted field that are too long together
                hint += f"; else r{file.too_long_hint[1:]}" if file.limit_option else ""
            bad.report(path=file.path, line=begin, reason=reason, hint=hint)
            continue
        if unusable and not unusable.isdisjoint(range(begin, reader.line_num + 1)):
            unusable.clear()
            if reader.line_num > begin:
                reason = f"row with a bad line in it: lines {begin} to {reader.line_num}"
                bad.report(path=file.path, line=begin, reason=reason)
            continue
        if len(fields) > 1 or "".join(fields).strip(" "):  # a blank line is no record
            yield begin, [field.replace("\r\n", "\n") for field in fields]


def _next(reader: Iterator[list[str]], *, limit: int) -> list[str]:
    """The next record; the limit of a field is the module's, not the reader's, and is put back."""
    before = csv.field_size_limit(limit)
    try:
        return next(reader)
    finally:
        csv.field_size_limit(before)


def dictionary_records(file: TextFile, *, bad: BadRows) -> Iterator[tuple[int, list[str]]]:
    """Word and phones of every line that is not a comment."""
    for number, text in good_lines(file.lines(bad=bad)):
        if text.startswith(COMMENTS):
            continue
        word, *phones = text.split() or [""]
        comment = next((place for place, phone in enumerate(phones) if phone[0] == "#"), None)
        said = " ".join(phones[:comment])
        yield number, [ANOTHER_PRONUNCIATION.sub("", word) or word, said]


def parallel_records(
    first: TextFile, second: TextFile, *, bad: BadRows
) -> Iterator[tuple[int, list[str]]]:
    """Line n of one file with line n of the other; an error, if one file has more."""
    counts = [0, 0]
    for left, right in zip_longest(first.lines(bad=bad), second.lines(bad=bad)):
        for side, line in enumerate((left, right)):
            counts[side] = line.number if line else counts[side]
        if left and right and left.text is not None and right.text is not None:
            yield left.number, [left.text, right.text]
    if counts[0] != counts[1]:
        raise RegardError(
            f"Parallel files must have equally many lines: '{first.path}' has {counts[0]:,}, "
            f"'{second.path}' has {counts[1]:,}. Make line n of one belong to line n of the other."
        )
