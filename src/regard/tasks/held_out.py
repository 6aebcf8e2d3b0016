"""Texts that are held out to be scored, with the right outputs for each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

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


def held_out_shares(options: Any) -> tuple[float, float]:
    """The shares of the main file that are developed on and tested on, of options with both and with files.

    A part that has its own file takes nothing from the main one. Whoever holds out rows to develop on
    has made the split, so that a test part is not cut from the rest then.
    """
    dev = 0.0 if options.dev else options.dev_share
    test = 0.0 if options.test or options.dev else options.test_share
    return dev, test


def held_out_facts(dev: HeldOut, test: HeldOut) -> dict[str, Any]:
    """How many items each part has, and fingerprints that show any later change."""
    return {
        "dev_items": len(dev),
        "dev_fingerprint": dev.fingerprint(),
        "test_items": len(test),
        "test_fingerprint": test.fingerprint(),
    }
