"""Which texts of a file belong to which part, and which held-out texts are learned from too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

from regard.data.bad_rows import BadRows
from regard.data.split import part_of
from regard.tasks.held_out import HeldOut, as_read
from regard.tasks.text_options import TextOptions


@runtime_checkable
class TextRow(Protocol):
    """A row with a text."""

    @property
    def text(self) -> str:
        """The text."""
        ...


Row_co = TypeVar("Row_co", bound=TextRow, covariant=True)
Row = TypeVar("Row", bound=TextRow)


@runtime_checkable
class RowSource(Protocol[Row_co]):
    """A file, or what stands for one, that can be read several times."""

    def rows(self, *, bad: BadRows) -> Iterator[Row_co]:
        """Its rows, in order."""
        ...


def part_rows(
    source: RowSource[Row], options: TextOptions, part: str, bad: BadRows
) -> Iterator[Row]:
    """The rows of the main file that belong to one part; one that has its own file takes none.

    Whoever holds out rows to develop on has made the split, so that a test part is not cut off then.
    """
    dev = 0.0 if options.dev else options.dev_share
    test = 0.0 if options.test or options.dev else options.test_share
    for row in source.rows(bad=bad):
        text = as_read(row.text, lowercase=options.lowercase)
        if part_of(text, dev=dev, test=test) == part:
            yield row


class LearnedToo:
    """Watches the training rows for texts that are held out: scores on those say less."""

    def __init__(self, held_out: dict[str, HeldOut], *, lowercase: bool) -> None:
        self.lowercase = lowercase
        self.texts = {
            part: {as_read(text, lowercase=lowercase) for text in texts.sources}
            for part, texts in held_out.items()
        }
        self.found: dict[str, set[str]] = {part: set() for part in held_out}

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, unchanged."""
        for row in rows:
            text = as_read(row.text, lowercase=self.lowercase)
            for part, texts in self.texts.items():
                if text in texts:
                    self.found[part].add(text)
            yield row

    def counts(self) -> dict[str, int]:
        """How many different texts of each part were met."""
        return {part: len(texts) for part, texts in self.found.items()}
