"""Vocabularies that are a list of tokens found in the text, most frequent first.

Characters and words differ only in how a text is cut and joined. Tokens of equal frequency stand
in the order of their code points, so the same texts give the same vocabulary in any order.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

from regard.core.batches import UNKNOWN
from regard.core.errors import RegardError
from regard.data.tokenizers.vocabulary import (
    FIRST_TOKEN,
    Vocabulary,
    broken_vocabulary,
    normal_text,
)


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


# A vocabulary of characters: one number a character, spaces too.
#
# "a cat"  →  a · ␣ · c · a · t
#
# A text that has only known characters comes back exactly, up to NFC (and small letters, if asked).


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


# A vocabulary of words: what stands between spaces, punctuation and all.
#
# "K AE T"  →  K · AE · T
#
# Made for text that is already cut, such as phones. A text of known words comes back with single
# spaces.


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


# A vocabulary of the words of running text, punctuation marks apart from them.
#
# "It's good, isn't it?"  →  it's · good · , · isn't · it · ?
#
# An HTML break is a space. Unlike `words` it is made for text as people write it; unlike word
# pieces it has no parts of words, and a word it does not know is unknown as a whole. A text comes
# back with single spaces.


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
