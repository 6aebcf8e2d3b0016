"""Cross-validation: the rows of a reader in stratified folds, of which one is the test split.

Every label is spread evenly over the folds. The order within a label is that of a hash of the input, so
that folds do not depend on the order of the file, and equal inputs are in one fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.data.readers.text_file import Reader, Row, RowErrors

Key = Callable[[Any], str]


@dataclass(frozen=True)
class Folds:
    """The fold of every input of a reader; `key` identifies an input."""

    reader: Reader
    key: Key
    num_folds: int

    @cached_property
    def _fold_of(self) -> dict[str, int]:
        labels: dict[str, str] = {}
        for row in self.reader.rows(errors=RowErrors(skip=True)):
            labels.setdefault(self.key(row.input), row.target)
        if len(labels) < self.num_folds:
            raise RegardError(
                f"task.num_folds={self.num_folds}: '{self.reader.path}' has {len(labels)} different "
                "inputs. Use fewer folds."
            )
        # Counted on from label to label, so that the folds have equal sizes too.
        ordered = sorted(labels, key=lambda key: (labels[key], key))
        return {key: number % self.num_folds for number, key in enumerate(ordered)}

    def split(self, fold: int) -> tuple[FoldReader, FoldReader]:
        """Readers of all other folds, and of this one."""
        return FoldReader(self, fold, is_test=False), FoldReader(self, fold, is_test=True)

    def fold_of(self, value: Any) -> int:
        """The fold of an input, from 0."""
        return self._fold_of[self.key(value)]


@dataclass(frozen=True)
class FoldReader:
    """The rows of one fold, or of all others, which also report the row errors of the reader."""

    folds: Folds
    fold: int
    is_test: bool

    @property
    def path(self) -> Path:
        """The file."""
        return self.folds.reader.path

    @property
    def notice(self) -> str:
        """The note of the reader."""
        return str(getattr(self.folds.reader, "notice", ""))

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """The valid rows of these folds."""
        reported = RowErrors(skip=True) if self.is_test else errors
        for row in self.folds.reader.rows(errors=reported):
            if (self.folds.fold_of(row.input) == self.fold) == self.is_test:
                yield row
