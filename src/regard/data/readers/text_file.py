"""The lines of a text file, gzipped or not, one at a time and never more than a limit at once.

A line ends at a newline (with or without a carriage return before it), and nowhere else. Gzip is
recognised by the file's first bytes, whatever its name. A byte-order mark is removed.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import RegardError

# What is done with a row that cannot be used: an error at once, or a list at the end. Never
# silence.


KEPT_IN_FULL = 1000


class BadRow(NamedTuple):
    """A row that cannot be used. `reason` reads "what is wrong: the particulars"."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class BadRows:
    """Takes in bad rows. Without `skip` the first one is an error; with it, all are counted.

    The first 1000 are kept with their place and reason, so that a hopeless file does not fill the memory.
    """

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.rows: list[BadRow] = []
        self.by_reason: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many rows were bad, those not kept in full included."""
        return self.by_reason.total()

    def report(self, *, path: Path, line: int, reason: str, hint: str = "") -> None:
        """Take in one bad row; `hint` is added to the error only."""
        row = BadRow(path, line, reason)
        if not self.skip:
            way_out = hint or "Fix the line"
            raise RegardError(f"{row}. {way_out}, or leave such rows out with --skip-bad-rows.")
        self.by_reason[reason.partition(":")[0]] += 1
        if len(self.rows) < KEPT_IN_FULL:
            self.rows.append(row)

    def summary(self, *, examples: int = 5) -> str:
        """How many rows were bad, for which reasons, and the first few of them."""
        if not self.count:
            return "no bad rows"
        lines = [f"{self.count:,} bad {'row' if self.count == 1 else 'rows'} left out"]
        ordered = sorted(self.by_reason.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {count:,} × {reason}" for reason, count in ordered]
        lines += [f"  {row}" for row in self.rows[:examples]]
        if self.count > examples:
            lines.append(f"  … and {self.count - examples:,} more")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The counts by reason and the rows kept in full."""
        return {
            "count": self.count,
            "by_reason": dict(sorted(self.by_reason.items())),
            "rows": [
                {"path": str(row.path), "line": row.line, "reason": row.reason} for row in self.rows
            ],
        }


GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# First bytes → what such a file is and what to do with it.
NOT_TEXT: dict[bytes, str] = {
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
    b"BZh": "is packed with bzip2; unpack it, or pack it with gzip",
    b"\xfd7zXZ\x00": "is packed with xz; unpack it, or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "is packed with zstd; unpack it, or pack it with gzip",
    b"PK\x03\x04": "is a zip archive; unpack it, or pack it with gzip",
}


class Line(NamedTuple):
    """A line without its ending, counted from 1; no text if it was bad, which was then reported."""

    number: int
    text: str | None


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A file of UTF-8 lines; `limit_option` is what an error advises to raise for longer ones."""

    path: Path
    max_line_bytes: int
    limit_option: str = ""

    @property
    def too_long_hint(self) -> str:
        """What can be done about a line that is too long."""
        raised = f"Raise {self.limit_option}, s" if self.limit_option else "S"
        return f"{raised}horten the line"

    def check(self) -> None:
        """Refuse what is not a file."""
        if not is_there(self.path):
            raise RegardError(f"There is no file '{self.path}'. Check the name and the folder.")
        if self.path.is_dir():
            raise RegardError(f"'{self.path}' is a folder, not a file. Name a file in it.")

    def lines(self, *, bad: BadRows) -> Iterator[Line]:
        """Every line in order. One that is too long or not UTF-8 is reported and has no text."""
        self.check()
        try:
            with self.path.open("rb") as file:
                if file.peek(len(GZIP))[: len(GZIP)] == GZIP:
                    with gzip.GzipFile(fileobj=file) as unpacked:
                        yield from self._lines_of(unpacked, bad=bad)
                else:
                    yield from self._lines_of(file, bad=bad)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise RegardError(
                f"'{self.path}' is a damaged gzip file ({error}). Get or pack it again."
            ) from error
        except OSError as error:
            raise RegardError(
                f"'{self.path}' cannot be read: {error.strerror or error}. Check its permissions."
            ) from error

    def _lines_of(self, file: BufferedIOBase, *, bad: BadRows) -> Iterator[Line]:
        limit = self.max_line_bytes
        number = 0
        while raw := file.readline(limit + 2):
            number += 1
            if number == 1:
                raw = self._without_mark(raw)
            content = raw.removesuffix(b"\n").removesuffix(b"\r")
            if len(content) > limit:
                length = len(raw)
                while not raw.endswith(b"\n") and (raw := file.readline(limit + 2)):
                    length += len(raw)
                reason = f"line too long: {length:,} bytes, at most {limit:,} are read"
                bad.report(path=self.path, line=number, reason=reason, hint=self.too_long_hint)
                yield Line(number, None)
                continue
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte {error.start} of the line is 0x{content[error.start]:02x}"
                reason = f"not UTF-8: {byte}, UTF-8 is expected"
                bad.report(path=self.path, line=number, reason=reason, hint="Save it as UTF-8")
                yield Line(number, None)
            else:
                yield Line(number, text)
        if not number:
            raise RegardError(f"'{self.path}' is empty. Give a file with at least one row.")

    def _without_mark(self, raw: bytes) -> bytes:
        for start, meaning in NOT_TEXT.items():
            if raw.startswith(start):
                raise RegardError(f"'{self.path}' {meaning}.")
        return raw.removeprefix(BYTE_ORDER_MARK)


def good_lines(lines: Iterator[Line]) -> Iterator[tuple[int, str]]:
    """The lines that have a text; the others were reported."""
    return ((line.number, line.text) for line in lines if line.text is not None)


def filled_lines(lines: Iterator[Line]) -> Iterator[tuple[int, str]]:
    """As `good_lines`, without blank ones: an empty line, as at the end of many files, is no row."""
    return ((number, text) for number, text in good_lines(lines) if text.strip(" "))


def is_there(path: Path) -> bool:
    """Whether there is such a file; a name that no file can have is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
