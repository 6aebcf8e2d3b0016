"""A vocabulary of words: what stands between spaces, punctuation and all.

    "K AE T"  →  K · AE · T

Made for text that is already cut, such as phones. A text of known words comes back with single spaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from regard.data.listed_vocabulary import ListedVocabulary


class WordVocabulary(ListedVocabulary):
    """The words of the text; use `min_count` or `max_size` to leave rare ones out."""

    kind: ClassVar[str] = "words"

    @staticmethod
    def cut(text: str) -> list[str]:
        """What stands between white space."""
        return text.split()

    def decode(self, ids: Iterable[int]) -> str:
        """The words with a space between."""
        return " ".join(self.plain_tokens(ids))
