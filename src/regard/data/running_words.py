"""A vocabulary of the words of running text, punctuation marks apart from them.

    "It's good, isn't it?"  →  it's · good · , · isn't · it · ?

An HTML break is a space. Unlike `words` it is made for text as people write it; unlike word pieces it has
no parts of words, and a word it does not know is unknown as a whole. A text comes back with single spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from regard.data.listed_vocabulary import ListedVocabulary

BREAK = re.compile(r"<(?:br|p)\s*/?>|</p>", re.IGNORECASE)
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")


class RunningWordVocabulary(ListedVocabulary):
    """The words and marks of the texts; use `min_count` or `max_size` to leave rare ones out."""

    kind: ClassVar[str] = "running_words"

    @staticmethod
    def cut(text: str) -> list[str]:
        """Words, and single marks."""
        return WORD.findall(BREAK.sub(" ", text))

    def decode(self, ids: Iterable[int]) -> str:
        """Words and marks with a space between."""
        return " ".join(self.plain_tokens(ids))
