"""Texts that are held out to be scored, with the right outputs for each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from regard.data.normal_text import normal_text


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
