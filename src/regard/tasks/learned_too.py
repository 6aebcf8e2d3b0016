"""Which held-out texts are learned from too: scores on those say less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from regard.tasks.held_out import HeldOut, as_read

Row = TypeVar("Row")


class LearnedToo(Generic[Row]):
    """Watches the rows of the training part; `text_of` says what of a row is held against the others."""

    def __init__(
        self, held_out: Mapping[str, HeldOut], *, lowercase: bool, text_of: Callable[[Row], str]
    ) -> None:
        self.lowercase = lowercase
        self.text_of = text_of
        self.texts = {
            part: {as_read(text, lowercase=lowercase) for text in texts.sources}
            for part, texts in held_out.items()
        }
        self.found: dict[str, set[str]] = {part: set() for part in held_out}

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, unchanged."""
        for row in rows:
            text = as_read(self.text_of(row), lowercase=self.lowercase)
            for part, texts in self.texts.items():
                if text in texts:
                    self.found[part].add(text)
            yield row

    def counts(self) -> dict[str, int]:
        """How many different texts of each part were met."""
        return {part: len(texts) for part, texts in self.found.items()}


def learned_too_words(counts: Mapping[str, int], what: str) -> str:
    """The end of a sentence about a corpus; nothing where nothing was met.

    >>> learned_too_words({"dev": 2, "test": 0}, "sources")
    '; 2 dev sources stand in the training part too'
    """
    return "".join(
        f"; {count:,} {part} {what} stand in the training part too"
        for part, count in counts.items()
        if count
    )
