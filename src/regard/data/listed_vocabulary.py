"""Vocabularies that are a list of tokens found in the text, most frequent first.

Characters and words differ only in how a text is cut and joined. Tokens of equal frequency stand
in the order of their code points, so the same texts give the same vocabulary in any order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

from regard.core.errors import RegardError
from regard.core.special_tokens import UNKNOWN
from regard.data.normal_text import normal_text
from regard.data.vocabulary import FIRST_TOKEN, Vocabulary, broken_vocabulary


class ListedVocabulary(Vocabulary):
    """Each piece of a text is looked up as it is."""

    def __init__(self, *, tokens: Sequence[str], lowercase: bool) -> None:
        super().__init__(tokens=tokens, lowercase=lowercase)
        self._number_of = {token: FIRST_TOKEN + place for place, token in enumerate(self.tokens)}

    @staticmethod
    @abstractmethod
    def cut(text: str) -> list[str]:
        """The pieces of a text."""

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's pieces."""
        number_of = self._number_of
        pieces = self.cut(normal_text(text, lowercase=self.lowercase))
        return [number_of.get(piece, UNKNOWN) for piece in pieces]

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        lowercase: bool = False,
    ) -> Self:
        """The pieces seen at least `min_count` times, at most `max_size` with the special tokens."""
        if min_count < 1:
            raise RegardError(
                f"min_count={min_count}: a token is seen at least once. Use 1 or more."
            )
        if max_size is not None and max_size <= FIRST_TOKEN:
            raise RegardError(
                f"max_size={max_size}: {FIRST_TOKEN} numbers are taken by special tokens. "
                f"Use {FIRST_TOKEN + 1} or more."
            )
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(cls.cut(normal_text(text, lowercase=lowercase)))
        frequent = [token for token, count in counts.items() if count >= min_count]
        frequent.sort(key=lambda token: (-counts[token], token))
        room = None if max_size is None else max_size - FIRST_TOKEN
        return cls(tokens=frequent[:room], lowercase=lowercase)

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """The vocabulary with these tokens; each must be one piece by this kind's own rule."""
        for token in contents["tokens"]:
            if cls.cut(normal_text(token, lowercase=contents["lowercase"])) != [token]:
                raise broken_vocabulary(f"{token!r} is not one of the {cls.kind} of any text")
        return cls(tokens=contents["tokens"], lowercase=contents["lowercase"])
