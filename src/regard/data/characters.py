"""A vocabulary of characters: one number a character, spaces too.

    "a cat"  →  a · ␣ · c · a · t

A text that has only known characters comes back exactly, up to NFC (and small letters, if asked).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from regard.data.listed_vocabulary import ListedVocabulary


class CharacterVocabulary(ListedVocabulary):
    """The characters of the text; a character is a Unicode code point in NFC."""

    kind: ClassVar[str] = "characters"

    @staticmethod
    def cut(text: str) -> list[str]:
        """Every character."""
        return list(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The characters, side by side."""
        return "".join(self.plain_tokens(ids))
