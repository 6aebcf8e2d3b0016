"""Rows and their errors, and streaming lines from UTF-8 text files, plain or gzipped.

A line ends at a newline (with or without a carriage return before it), and nowhere else. Gzip is
detected by the file's magic bytes, whatever its name. A byte-order mark is removed. No more than one
line, and at most `max_line_bytes` of it, is in memory.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from regard.core.errors import MissingDependencyError, RegardError
from regard.data.datasets import DATASETS

MAX_LISTED_ERRORS = 1000


class RowError(NamedTuple):
    """An invalid row. `reason` has the form "kind of error: details"."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class RowErrors:
    """Collects row errors. Without `skip` the first one raises; with it, all are counted.

    The first 1000 are stored with line and reason, so that memory stays bounded.
    """

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.rows: list[RowError] = []
        self.by_reason: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Number of row errors, stored or not."""
        return self.by_reason.total()

    def report(self, *, path: Path, line: int, reason: str, hint: str = "") -> None:
        """Record one row error; `hint` is part of the exception only."""
        row = RowError(path, line, reason)
        if not self.skip:
            raise RegardError(
                f"{row}. {hint or 'Fix the line'}, or skip such rows with --skip-bad-rows."
            )
        self.by_reason[reason.partition(":")[0]] += 1
        if len(self.rows) < MAX_LISTED_ERRORS:
            self.rows.append(row)

    def summary(self, *, examples: int = 5) -> str:
        """Number of row errors by reason, and the first few of them."""
        if not self.count:
            return "no bad rows"
        lines = [f"{self.count:,} bad {'row' if self.count == 1 else 'rows'} skipped"]
        ordered = sorted(self.by_reason.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {count:,} × {reason}" for reason, count in ordered]
        lines += [f"  {row}" for row in self.rows[:examples]]
        if self.count > examples:
            lines.append(f"  … and {self.count - examples:,} more")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Counts by reason, and the stored rows."""
        return {
            "count": self.count,
            "by_reason": dict(sorted(self.by_reason.items())),
            "rows": [
                {"path": str(row.path), "line": row.line, "reason": row.reason} for row in self.rows
            ],
        }


class Row(NamedTuple):
    """An input, its target (None where there is none), and the line they begin on, numbered from 1."""

    input: Any
    target: Any
    line: int


@runtime_checkable
class Reader(Protocol):
    """The rows of a file or an embedded dataset, which can be read several times."""

    @property
    def path(self) -> Path:
        """The file, for messages."""
        ...

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All valid rows in order; invalid ones are reported to `errors`."""
        ...


@dataclass(frozen=True, kw_only=True)
class GeneratedRows:
    """A reader of the rows that a function generates, without row errors.

    `notice` is a note on the origin of the data.
    """

    path: Path
    generate: Callable[[], Iterable[Row]]
    notice: str = ""

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All rows, in order."""
        del errors
        return iter(self.generate())


GZIP = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Magic bytes → file type and remedy.
NOT_TEXT: dict[bytes, str] = {
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
    b"BZh": "is compressed with bzip2; decompress it, or use gzip",
    b"\xfd7zXZ\x00": "is compressed with xz; decompress it, or use gzip",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; decompress it, or use gzip",
    b"PK\x03\x04": "is a zip archive; extract it, or use gzip",
}


class Line(NamedTuple):
    """A line without its line ending, numbered from 1; `text` is None if it was reported as an error."""

    number: int
    text: str | None


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A file of UTF-8 lines; `limit_option` names the option that raises `max_line_bytes`."""

    path: Path
    max_line_bytes: int
    limit_option: str = ""

    @property
    def too_long_hint(self) -> str:
        """Remedy for a line over the limit."""
        raise_limit = f"Raise {self.limit_option}, s" if self.limit_option else "S"
        return f"{raise_limit}horten the line"

    def check(self) -> None:
        """Raise if there is no such file."""
        if not file_exists(self.path):
            near = get_close_matches(self.path.name, DATASETS, n=1, cutoff=0.8)
            hint = f"Did you mean the dataset '{near[0]}'?" if near else "Check the path."
            raise RegardError(f"There is no file '{self.path}'. {hint}")
        if self.path.is_dir():
            raise RegardError(f"'{self.path}' is a folder, not a file. Name a file in it.")

    def lines(self, *, errors: RowErrors) -> Iterator[Line]:
        """All lines in order. A line that is too long or not UTF-8 is reported and has no text."""
        self.check()
        try:
            with self.path.open("rb") as file:
                if file.peek(len(GZIP))[: len(GZIP)] == GZIP:
                    with gzip.GzipFile(fileobj=file) as decompressed:
                        yield from self._read_lines(decompressed, errors=errors)
                else:
                    yield from self._read_lines(file, errors=errors)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise RegardError(
                f"'{self.path}' is a damaged gzip file ({error}). Download or compress it again."
            ) from error
        except OSError as error:
            raise RegardError(
                f"'{self.path}' cannot be read: {error.strerror or error}. Check its permissions."
            ) from error

    def _read_lines(self, file: BufferedIOBase, *, errors: RowErrors) -> Iterator[Line]:
        limit = self.max_line_bytes
        number = 0
        while raw := file.readline(limit + 2):
            number += 1
            if number == 1:
                raw = self._strip_byte_order_mark(raw)
            content = raw.removesuffix(b"\n").removesuffix(b"\r")
            if len(content) > limit:
                length = len(raw)
                while not raw.endswith(b"\n") and (raw := file.readline(limit + 2)):
                    length += len(raw)
                reason = f"line too long: {length:,} bytes, the limit is {limit:,}"
                errors.report(path=self.path, line=number, reason=reason, hint=self.too_long_hint)
                yield Line(number, None)
                continue
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte {error.start} of the line is 0x{content[error.start]:02x}"
                reason = f"not UTF-8: {byte}, UTF-8 is expected"
                errors.report(path=self.path, line=number, reason=reason, hint="Save it as UTF-8")
                yield Line(number, None)
            else:
                yield Line(number, text)
        if not number:
            raise RegardError(f"'{self.path}' is empty. Give a file with at least one row.")

    def _strip_byte_order_mark(self, raw: bytes) -> bytes:
        for magic, remedy in NOT_TEXT.items():
            if raw.startswith(magic):
                raise RegardError(f"'{self.path}' {remedy}.")
        return raw.removeprefix(BYTE_ORDER_MARK)


def decoded_lines(lines: Iterator[Line]) -> Iterator[tuple[int, str]]:
    """Number and text of the lines without an error."""
    return ((line.number, line.text) for line in lines if line.text is not None)


def nonblank_lines(lines: Iterator[Line]) -> Iterator[tuple[int, str]]:
    """As `decoded_lines`, without blank lines, which are not rows."""
    return ((number, text) for number, text in decoded_lines(lines) if text.strip(" "))


def file_exists(path: Path) -> bool:
    """Whether there is such a file; False for an invalid file name."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def installed_file(module: str, file: Path, *, what: str, install: str) -> Path:
    """A file in an installed package, found without importing the package.

    The error says `what` it holds, and to run `pip install` with the arguments `install`.
    """
    spec = find_spec(module)
    for folder in (spec.submodule_search_locations if spec else None) or []:
        if (path := Path(folder) / file).is_file():
            return path
    raise MissingDependencyError(
        f"{what}: the file {file} of the package '{module}' is not installed. Run: pip install {install}"
    )
