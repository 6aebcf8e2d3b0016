"""Inputs with words or characters that are not in the vocabulary of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.core.batches import UNKNOWN
from regard.data.tokenizers.vocabulary import Vocabulary

SHOWN = 5  # unknown words or characters that a note names


class UnknownTokens:
    """Counts the texts with unknown tokens; nothing is counted without a vocabulary, as for frames."""

    def __init__(self, vocabulary: object) -> None:
        self._vocabulary = vocabulary if isinstance(vocabulary, Vocabulary) else None
        self._found: dict[str, None] = {}
        self._count = self._total = 0

    def add(self, texts: Sequence[Any]) -> None:
        """Count further texts."""
        self._total += len(texts)
        if self._vocabulary is None:
            return
        for text, ids in zip(texts, self._vocabulary.encode_all(texts), strict=True):
            if UNKNOWN in ids:
                self._count += 1
                if len(self._found) <= SHOWN:
                    self._found.update(dict.fromkeys(self._vocabulary.unknown(text)))

    def describe(self) -> str:
        """One line; empty if nothing is unknown.

        >>> from regard.data.tokenizers.vocabulary import build_vocabulary
        >>> unknown = UnknownTokens(build_vocabulary("characters", ["abba"]))
        >>> unknown.add(["ab", "bad"])
        >>> unknown.describe()
        "1 of 2 inputs has characters that are not in the model's vocabulary: 'd'"
        """
        if self._vocabulary is None or not self._count:
            return ""
        names = [repr(each) for each in self._found]
        more = ", …" if len(names) > SHOWN else ""
        return (
            f"{self._count:,} of {self._total:,} {'input' if self._total == 1 else 'inputs'} "
            f"{'has' if self._count == 1 else 'have'} {self._vocabulary.unit} that are not in the model's "
            f"vocabulary: {', '.join(names[:SHOWN])}{more}"
        )
