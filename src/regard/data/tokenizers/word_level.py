"""Character- and word-level vocabularies: the tokens of the training texts, by frequency.

    characters    "a cat"                   a · ␣ · c · a · t
    words         "K AE T"                  K · AE · T                        split at white space
    word_punct    "It's good, isn't it?"    it's · good · , · isn't · it · ?   words and punctuation
    characters_and_tags    "run⇥V;PST"      r · u · n · <V> · <PST>           tags after a tab are whole

Tokens of equal frequency are ordered by code point, so the vocabulary does not depend on the order of the
texts. Decoding is lossless for `characters` (up to NFC and lower-casing); the others join tokens with
single spaces.
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
    invalid_vocabulary,
    normalize_text,
)


class FrequencyVocabulary(Vocabulary):
    """Tokens by frequency; subclasses define how a text is split (`tokenize`)."""

    def __init__(self, *, tokens: Sequence[str], lowercase: bool) -> None:
        super().__init__(tokens=tokens, lowercase=lowercase)
        self._id_of = {token: FIRST_TOKEN + index for index, token in enumerate(self.tokens)}

    @staticmethod
    @abstractmethod
    def tokenize(text: str) -> list[str]:
        """Split a text into tokens."""

    def encode(self, text: str) -> list[int]:
        """The token ids of a text."""
        id_of = self._id_of
        tokens = self.tokenize(normalize_text(text, lowercase=self.lowercase))
        return [id_of.get(token, UNKNOWN) for token in tokens]

    def unknown(self, text: str) -> list[str]:
        """The tokens of a text that are out of vocabulary."""
        tokens = self.tokenize(normalize_text(text, lowercase=self.lowercase))
        return [token for token in tokens if token not in self._id_of]

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        lowercase: bool = False,
    ) -> Self:
        """The tokens with at least `min_count` occurrences; `max_size` includes the special tokens."""
        if min_count < 1:
            raise RegardError(f"min_count={min_count}: use 1 or more.")
        if max_size is not None and max_size <= FIRST_TOKEN:
            raise RegardError(
                f"max_size={max_size}: {FIRST_TOKEN} ids are special tokens. "
                f"Use {FIRST_TOKEN + 1} or more."
            )
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(cls.tokenize(normalize_text(text, lowercase=lowercase)))
        frequent = [token for token, count in counts.items() if count >= min_count]
        frequent.sort(key=lambda token: (-counts[token], token))
        limit = None if max_size is None else max_size - FIRST_TOKEN
        return cls(tokens=frequent[:limit], lowercase=lowercase)

    @staticmethod
    def spelled(token: str) -> str:
        """A text of this token alone."""
        return token

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """Restore the vocabulary; every token must be one token of this kind."""
        for token in contents["tokens"]:
            text = normalize_text(cls.spelled(token), lowercase=contents["lowercase"])
            if cls.tokenize(text) != [token]:
                raise invalid_vocabulary(f"{token!r} is not a token of kind {cls.kind!r}")
        return cls(tokens=contents["tokens"], lowercase=contents["lowercase"])


class CharacterVocabulary(FrequencyVocabulary):
    """Characters: Unicode code points in NFC, spaces included.

    A letter that the vocabulary has in the other case only is encoded as that one, so that a model of a
    lower-case dictionary reads "Cat" as "cat".
    """

    kind: ClassVar[str] = "characters"
    unit: ClassVar[str] = "characters"

    def __init__(self, *, tokens: Sequence[str], lowercase: bool) -> None:
        super().__init__(tokens=tokens, lowercase=lowercase)
        for token, number in list(self._id_of.items()):
            for other in (token.lower(), token.upper()):
                self._id_of.setdefault(other, number)

    @staticmethod
    def tokenize(text: str) -> list[str]:
        """Every character."""
        return list(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The characters, concatenated."""
        return "".join(self.plain_tokens(ids))


TAG_SEPARATOR = "\t"
TAG_ENDS = re.compile(r"[;\s]+")


class CharacterTagVocabulary(CharacterVocabulary):
    """The characters up to the first tab; after it, whole tokens, split at ";" and white space.

    This is the input of morphological inflection, a lemma with its tags: "run⇥V;PST". A tag has angle
    brackets, so that <V> is not the letter V.
    """

    kind: ClassVar[str] = "characters_and_tags"
    unit: ClassVar[str] = "characters or tags"

    @staticmethod
    def tokenize(text: str) -> list[str]:
        """Every character before the tab, every tag after it."""
        characters, _, tags = text.partition(TAG_SEPARATOR)
        return [*characters, *(f"<{tag}>" for tag in TAG_ENDS.split(tags) if tag)]

    @staticmethod
    def spelled(token: str) -> str:
        """A character, or a tab and a tag."""
        return token if len(token) == 1 else f"{TAG_SEPARATOR}{token[1:-1]}"

    def typed(self, text: str) -> str:
        """A text typed without a tab, such as on the command line: its last word has the tags.

        >>> CharacterTagVocabulary(tokens=["a"], lowercase=False).typed("give up V;PST")
        'give up\\tV;PST'
        """
        return text if TAG_SEPARATOR in text else TAG_SEPARATOR.join(text.rsplit(maxsplit=1))


class WordVocabulary(FrequencyVocabulary):
    """Words separated by white space, for pre-tokenized text such as phones."""

    kind: ClassVar[str] = "words"

    @staticmethod
    def tokenize(text: str) -> list[str]:
        """Split at white space."""
        return text.split()

    def decode(self, ids: Iterable[int]) -> str:
        """The words, joined by spaces."""
        return " ".join(self.plain_tokens(ids))


HTML_BREAK = re.compile(r"<(?:br|p)\s*/?>|</p>", re.IGNORECASE)
WORD_OR_PUNCTUATION = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]|_")


class WordPunctVocabulary(FrequencyVocabulary):
    """Words and single punctuation marks, for natural text; an HTML break counts as a space."""

    kind: ClassVar[str] = "word_punct"

    @staticmethod
    def tokenize(text: str) -> list[str]:
        """Words (with inner apostrophes) and single punctuation marks."""
        return WORD_OR_PUNCTUATION.findall(HTML_BREAK.sub(" ", text))

    def decode(self, ids: Iterable[int]) -> str:
        """Words and punctuation, joined by spaces."""
        return " ".join(self.plain_tokens(ids))
