"""Train, validation and test splits, and the leakage between them.

An example's split follows from a hash of its input text. So all examples with the same input are in one
split, which keeps duplicates from crossing the train–test boundary, and an example stays in its split
when the file grows, is sorted, or is read elsewhere.

Splits from separate files can overlap. `Leakage` counts that contamination: evaluation inputs that also
occur in training.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar

from regard.core.errors import RegardError
from regard.data.tokenizers.vocabulary import normalize_text

Split = Literal["train", "validation", "test"]
Row = TypeVar("Row")


def split_of(
    source: str, *, salt: str = "regard", validation: float = 0.05, test: float = 0.05
) -> Split:
    """The split of an input text; `validation` and `test` are expected fractions of distinct inputs.

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


def holdout_fractions(options: Any) -> tuple[float, float]:
    """The fractions of the training file that are held out for validation and for test.

    A split with a file of its own takes nothing from the training file. With a validation file and no
    test file there is no test split.
    """
    validation = 0.0 if options.validation_file else options.validation_fraction
    test = 0.0 if options.test_file or options.validation_file else options.test_fraction
    return validation, test


def dedup_key(text: str, *, lowercase: bool) -> str:
    """The text in NFC with single spaces: texts with equal keys are duplicates to a model.

    >>> dedup_key("A  cat ", lowercase=True)
    'a cat'
    """
    return " ".join(normalize_text(text, lowercase=lowercase).split())


@dataclass(frozen=True, kw_only=True)
class EvalSplit:
    """A validation or test split; `references[i]` are the correct outputs for `inputs[i]`."""

    inputs: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]], *, group: bool, lowercase: str = "no") -> Self:
        """From (input, reference) rows; with `group`, rows with the same input become one item.

        With `lowercase` "source" or "both", inputs that differ in case only are the same input, spelled
        as the first one; with "both", references are lower-cased, like everything the model outputs.
        """
        if lowercase == "both":
            rows = ((text, normalize_text(reference, lowercase=True)) for text, reference in rows)
        items: list[tuple[str, tuple[str, ...]]]
        if not group:
            items = [(text, (reference,)) for text, reference in rows]
        else:
            grouped: dict[str, tuple[str, dict[str, None]]] = {}
            for text, reference in rows:
                key = dedup_key(text, lowercase=lowercase != "no")
                grouped.setdefault(key, (text, {}))[1][reference] = None
            items = [(text, tuple(references)) for text, references in grouped.values()]
        return cls(
            inputs=tuple(text for text, _ in items),
            references=tuple(references for _, references in items),
        )

    def __len__(self) -> int:
        return len(self.inputs)

    def fingerprint(self) -> str:
        """A hash of all inputs and references, in order."""
        text = json.dumps([self.inputs, self.references])
        return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def split_facts(validation: EvalSplit, test: EvalSplit) -> dict[str, Any]:
    """Number of items and fingerprint of each evaluation split, for a run's record."""
    return {
        "validation_items": len(validation),
        "validation_fingerprint": validation.fingerprint(),
        "test_items": len(test),
        "test_fingerprint": test.fingerprint(),
    }


class Leakage(Generic[Row]):
    """Counts evaluation inputs that also occur in training; `text_of` extracts the input of a row."""

    def __init__(
        self,
        eval_splits: Mapping[str, EvalSplit],
        *,
        lowercase: bool,
        text_of: Callable[[Row], str],
    ) -> None:
        self.lowercase = lowercase
        self.text_of = text_of
        self.inputs = {
            name: {dedup_key(text, lowercase=lowercase) for text in split.inputs}
            for name, split in eval_splits.items()
        }
        self.found: dict[str, set[str]] = {name: set() for name in eval_splits}

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass the training rows through unchanged, and record those that are in an evaluation split."""
        for row in rows:
            text = dedup_key(self.text_of(row), lowercase=self.lowercase)
            for name, inputs in self.inputs.items():
                if text in inputs:
                    self.found[name].add(text)
            yield row

    def counts(self) -> dict[str, int]:
        """Number of distinct leaked inputs in each evaluation split."""
        return {name: len(texts) for name, texts in self.found.items()}


def leakage_summary(counts: Mapping[str, int], what: str) -> str:
    """Leakage as the end of a sentence about a corpus; empty without leakage.

    >>> leakage_summary({"validation": 2, "test": 0}, "sources")
    '; 2 validation sources also occur in training'
    """
    return "".join(
        f"; {count:,} {name} {what} also occur in training"
        for name, count in counts.items()
        if count
    )
