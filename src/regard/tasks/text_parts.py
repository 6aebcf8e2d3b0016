"""Which texts of a file belong to which part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar, runtime_checkable

from regard.data.bad_rows import BadRows
from regard.data.split import part_of
from regard.tasks.held_out import as_read, held_out_shares
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
    """The rows of the main file that belong to one part."""
    dev, test = held_out_shares(options)
    for row in source.rows(bad=bad):
        text = as_read(row.text, lowercase=options.lowercase)
        if part_of(text, dev=dev, test=test) == part:
            yield row
