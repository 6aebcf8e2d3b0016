"""Which part of the data a pair belongs to: train, validation or test.

The part follows from a hash of the source text alone. So all pairs with the same source are in
the same part, and a pair keeps its part when the file grows, is sorted, or is read elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar

from regard.core.errors import RegardError
from regard.data.tokenizers.vocabulary import normal_text

Part = Literal["train", "validation", "test"]


def part_of(
    source: str, *, salt: str = "regard", validation: float = 0.05, test: float = 0.05
) -> Part:
    """The part of a source; about `validation` and `test` of all sources are held out.

    Another `salt` gives another split. A larger `validation` moves sources from train to validation only, since test
    is taken from the other end.
    """
    if not (min(validation, test) >= 0 and validation + test < 1):
        raise RegardError(
            f"validation={validation}, test={test}: fractions are at least 0, and together leave some for train. "
            "Use such as validation=0.05, test=0.05."
        )
    digest = hashlib.blake2b(f"{salt}\0{source}".encode(), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64
    if place < validation:
        return "validation"
    return "test" if place >= 1 - test else "train"


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Texts to be scored; `answers[i]` are the right outputs for `sources[i]`, one or several."""

    sources: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]], *, group: bool, lowercase: str = "no") -> Self:
        """Rows of (source, answer); with `group`, rows of one source are one item.

        With `lowercase` "source" or "both", sources that differ in capitals only are one source, spelled
        as the first; with "both", answers are in lower case, as is all that the model can write.
        """
        if lowercase == "both":
            rows = ((source, normal_text(answer, lowercase=True)) for source, answer in rows)
        items: list[tuple[str, tuple[str, ...]]]
        if not group:
            items = [(source, (answer,)) for source, answer in rows]
        else:
            grouped: dict[str, tuple[str, dict[str, None]]] = {}
            for source, answer in rows:
                key = as_read(source, lowercase=lowercase != "no")
                grouped.setdefault(key, (source, {}))[1][answer] = None
            items = [(source, tuple(answers)) for source, answers in grouped.values()]
        return cls(
            sources=tuple(source for source, _ in items),
            answers=tuple(answers for _, answers in items),
        )

    def __len__(self) -> int:
        return len(self.sources)

    def fingerprint(self) -> str:
        """A hash of all texts in their order."""
        text = json.dumps([self.sources, self.answers])
        return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def as_read(source: str, *, lowercase: bool) -> str:
    """The source as a model reads it: what is one to it must not stand on both sides.

    >>> as_read("A  cat ", lowercase=True)
    'a cat'
    """
    return " ".join(normal_text(source, lowercase=lowercase).split())


def held_out_shares(options: Any) -> tuple[float, float]:
    """The shares of the main file that are developed on and tested on, of options with both and with files.

    A part that has its own file takes nothing from the main one. Whoever holds out rows to develop on
    has made the split, so that a test part is not cut from the rest then.
    """
    validation = 0.0 if options.validation else options.validation_share
    test = 0.0 if options.test or options.validation else options.test_share
    return validation, test


def held_out_facts(validation: HeldOut, test: HeldOut) -> dict[str, Any]:
    """How many items each part has, and fingerprints that show any later change."""
    return {
        "validation_items": len(validation),
        "validation_fingerprint": validation.fingerprint(),
        "test_items": len(test),
        "test_fingerprint": test.fingerprint(),
    }


# Which held-out texts are learned from too: scores on those say less.


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

    >>> learned_too_words({"validation": 2, "test": 0}, "sources")
    '; 2 validation sources stand in the training part too'
    """
    return "".join(
        f"; {count:,} {part} {what} stand in the training part too"
        for part, count in counts.items()
        if count
    )
