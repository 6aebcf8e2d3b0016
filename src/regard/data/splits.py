"""Train, validation and test splits.

An example's split follows from a hash of its input. So all examples with the same input are in one split,
which keeps duplicates from crossing the train–test boundary, and an example stays in its split when the
file grows, is sorted, or is read elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from regard.core.errors import RegardError
from regard.core.formatting import counted, integer_text
from regard.data.readers.text_file import Row
from regard.data.tokenizers.vocabulary import normalize_text

Split = Literal["train", "validation", "test"]
SPLIT_ORDER: tuple[Split, ...] = ("train", "validation", "test")
MAX_LISTED = 10


def split_of(
    source: str, *, salt: str = "regard", validation: float = 0.05, test: float = 0.05
) -> Split:
    """The split of an input; `validation` and `test` are expected fractions of distinct inputs.

    Another `salt` gives another random split. A larger `validation` moves inputs from train to
    validation only: the test split is cut from the other end of the hash range.
    """
    if not (min(validation, test) >= 0 and validation + test < 1):
        raise RegardError(
            f"validation={validation}, test={test}: fractions must be at least 0 and sum to less "
            "than 1. Use for example validation=0.05, test=0.05."
        )
    digest = hashlib.blake2b(f"{salt}\0{source}".encode(), digest_size=8).digest()
    uniform = int.from_bytes(digest, "big") / 2**64
    if uniform < validation:
        return "validation"
    return "test" if uniform >= 1 - test else "train"


def holdout_fractions(
    options: Any, *, validation: bool | None = None, test: bool | None = None
) -> tuple[float, float]:
    """The fractions of the training data that are held out for validation and for test.

    A split with data of its own (by default: with a file) takes nothing from the training data. With
    validation data and no test data there is no test split.
    """
    own_validation = bool(options.validation_file) if validation is None else validation
    own_test = bool(options.test_file) if test is None else test
    return (
        0.0 if own_validation else options.validation_fraction,
        0.0 if own_test or own_validation else options.test_fraction,
    )


def dedup_key(text: str, *, lowercase: bool) -> str:
    """The text in NFC with single spaces: texts with equal keys are duplicates to a model.

    >>> dedup_key("A  cat ", lowercase=True)
    'a cat'
    """
    return " ".join(normalize_text(text, lowercase=lowercase).split())


def array_key(values: np.ndarray) -> str:
    """A hash of an array, the same on every machine."""
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return hashlib.blake2b(little.tobytes(), digest_size=16).hexdigest()


def content_key(value: Any) -> str:
    """A hash of an array or of a recording, the same on every machine."""
    return array_key(value) if isinstance(value, np.ndarray) else value.content_hash()


@dataclass(frozen=True, kw_only=True)
class EvalSplit:
    """A validation or test split.

    inputs      texts or arrays, as they were read
    references  what is correct: a tuple of texts for sequence tasks, a label, a number, a list of tokens
    names       what each input is called in files and on pages; by default a text is its own name
    """

    inputs: tuple[Any, ...]
    references: tuple[Any, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.names) != len(self.inputs):
            object.__setattr__(self, "names", self.inputs)

    @classmethod
    def of(cls, rows: Iterable[Row], *, path: Path | None = None) -> Self:
        """One item per row, with its target as the reference. An array is named by file and row."""
        kept = list(rows)
        file = "row" if path is None else path.name
        return cls(
            inputs=tuple(row.input for row in kept),
            references=tuple(row.target for row in kept),
            names=tuple(
                row.input if isinstance(row.input, str) else f"{file}:{row.line}" for row in kept
            ),
        )

    @classmethod
    def grouped(
        cls, rows: Iterable[tuple[str, str]], *, group: bool, lowercase: str = "no"
    ) -> Self:
        """Texts with tuples of reference texts; with `group`, rows with the same input become one item.

        With `lowercase` "source" or "both", inputs that differ in case only are the same input, spelled
        as the first one; with "both", references are lower-cased, like everything the model outputs.
        """
        found: dict[Any, tuple[str, dict[str, None]]] = {}
        for number, (text, reference) in enumerate(rows):
            key = dedup_key(text, lowercase=lowercase != "no") if group else number
            cased = normalize_text(reference, lowercase=lowercase == "both")
            found.setdefault(key, (text, {}))[1][cased if lowercase == "both" else reference] = None
        return cls(
            inputs=tuple(text for text, _ in found.values()),
            references=tuple(tuple(references) for _, references in found.values()),
        )

    def __len__(self) -> int:
        return len(self.inputs)

    def fingerprint(self) -> str:
        """A hash of all inputs and references, in order."""
        inputs = [each if isinstance(each, str) else content_key(each) for each in self.inputs]
        text = json.dumps([inputs, self.references])
        return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


class SplitCounts:
    """Number of items in each split, and of those in several."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._splits_of: dict[str, set[str]] = {}

    def add(self, split: str | None, *, key: str) -> None:
        """Count one item; items with the same `key` are duplicates."""
        if split is not None:
            self.counts[split] += 1
            self._splits_of.setdefault(key, set()).add(split)

    @property
    def in_several(self) -> int:
        """Number of distinct items that occur in more than one split."""
        return sum(len(splits) > 1 for splits in self._splits_of.values())

    def ordered(self) -> list[tuple[str, int]]:
        """The splits that have items, with their numbers."""
        return [(name, self.counts[name]) for name in SPLIT_ORDER if self.counts[name]]

    def lines(self, noun: str) -> list[str]:
        """The numbers in one line; none without splits."""
        if not self.counts:
            return []
        verb = "occurs" if self.in_several == 1 else "occur"
        twice = f"{counted(self.in_several, noun)} {verb} in several"
        return [f"splits: {listed_counts(self.ordered())}; {twice}"]


def listed_counts(counts: Iterable[tuple[str, int]]) -> str:
    """Names with their counts in one line, the first ten.

    >>> listed_counts([("ann", 3), ("bob", 1)])
    'ann 3, bob 1'
    """
    shown = [f"{name} {integer_text(count)}" for name, count in counts]
    more = [f"and {len(shown) - MAX_LISTED} more"] if len(shown) > MAX_LISTED else []
    return ", ".join([*shown[:MAX_LISTED], *more])
