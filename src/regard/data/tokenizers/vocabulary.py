"""Text to token numbers and back: the interface of every vocabulary, and the table that names them.

    vocabulary = build_vocabulary("words", ["a rose is", "a rose"])
    vocabulary.encode("a rose was")      [4, 5, 3]     3 is UNKNOWN
    vocabulary.decode([4, 5, 2, 0])      "a rose"      special tokens are dropped

The numbers below `FIRST_TOKEN` are the special tokens, the same in every vocabulary, and no text
encodes to PAD, START or END: a word that happens to be spelled "<pad>" is a word like any other.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from regard.core.batches import SPECIAL_TOKENS
from regard.core.errors import RegardError
from regard.core.registry import construct, look_up

FIRST_TOKEN = len(SPECIAL_TOKENS)
"""The number of the first token that is not special."""


class VocabularyKind(NamedTuple):
    """Where a kind of vocabulary lives."""

    module: str
    class_name: str


VOCABULARIES: dict[str, VocabularyKind] = {
    "characters": VocabularyKind("regard.data.tokenizers.word_level", "CharacterVocabulary"),
    "words": VocabularyKind("regard.data.tokenizers.word_level", "WordVocabulary"),
    "running_words": VocabularyKind("regard.data.tokenizers.word_level", "RunningWordVocabulary"),
    "subwords": VocabularyKind("regard.data.tokenizers.subword", "SubwordVocabulary"),
    "wordpiece": VocabularyKind("regard.data.tokenizers.subword", "WordPieceVocabulary"),
}


class Vocabulary(ABC):
    """A fixed list of tokens, the rule that cuts a text into them, and the rule that joins them.

    `tokens[i]` is the token with the number FIRST_TOKEN + i.
    """

    kind: ClassVar[str]

    def __init__(self, *, tokens: Sequence[str], lowercase: bool) -> None:
        self.tokens = tuple(tokens)
        self.lowercase = lowercase
        check_tokens(self.tokens, kind=self.kind)

    @property
    def size(self) -> int:
        """How many numbers there are, special tokens included."""
        return FIRST_TOKEN + len(self.tokens)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without START and END; what is not known becomes UNKNOWN."""

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The numbers of many texts, in order."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of these numbers; special tokens are dropped."""

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """One label a number, special tokens included, as pictures need them; a space shows as ␣."""
        labels = (*SPECIAL_TOKENS, *self.tokens)
        return [labels[number].replace(" ", "␣") for number in checked_numbers(ids, size=self.size)]

    def plain_tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of these numbers, special ones dropped."""
        numbers = checked_numbers(ids, size=self.size)
        return [self.tokens[number - FIRST_TOKEN] for number in numbers if number >= FIRST_TOKEN]

    def contents(self) -> dict[str, Any]:
        """Everything `from_contents` needs, as JSON values."""
        return {"lowercase": self.lowercase, "tokens": list(self.tokens)}

    @classmethod
    @abstractmethod
    def build(cls, texts: Iterable[str]) -> Self:
        """The vocabulary of these texts, which are read once; options are keywords."""

    @classmethod
    @abstractmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """The vocabulary that `contents` describes."""

    def as_json(self) -> dict[str, Any]:
        """The vocabulary as JSON values, with a fingerprint that shows any later change."""
        record = {"kind": self.kind, **self.contents()}
        return {**record, "fingerprint": fingerprint_of(record)}


def build_vocabulary(kind: str, texts: Iterable[str], **options: Any) -> Vocabulary:
    """A vocabulary of the named kind from texts, read once. Same texts, same vocabulary.

    >>> build_vocabulary("characters", ["abba"]).encode("bad")
    [5, 4, 3]
    """
    builder = partial(class_of(kind).build, texts)
    return construct(builder, what=f"vocabulary '{kind}'", sizes={}, options=options)


def load_vocabulary(record: object) -> Vocabulary:
    """The vocabulary that `as_json` wrote; a record that was changed since is refused."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise broken_vocabulary("it is not a JSON object with a 'kind'")
    vocabulary_class = class_of(record["kind"])
    contents = {name: value for name, value in record.items() if name != "fingerprint"}
    if record.get("fingerprint") != fingerprint_of(contents):
        raise broken_vocabulary("its fingerprint does not fit its contents")
    tokens, lowercase = contents.get("tokens"), contents.get("lowercase")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise broken_vocabulary("'tokens' is not a list of texts")
    if not isinstance(lowercase, bool):
        raise broken_vocabulary("'lowercase' is neither true nor false")
    return vocabulary_class.from_contents(contents)


def broken_vocabulary(reason: str) -> RegardError:
    """The error for a vocabulary file that is not as it was written."""
    return RegardError(
        f"This vocabulary cannot be used: {reason}. A model knows its tokens by their numbers, so a "
        "changed vocabulary would give wrong text. Restore the file as it was written, or build anew."
    )


def check_tokens(tokens: Sequence[str], *, kind: str) -> None:
    """Refuse a list of tokens in which a number or a token would be ambiguous."""
    if not tokens:
        raise RegardError(
            f"A vocabulary of {kind} has no tokens: the texts it is made from are empty, or too much "
            "was left out. Give it text, or lower min_count."
        )
    if len(set(tokens)) < len(tokens) or "" in tokens:
        raise broken_vocabulary("a token is empty or stands there twice")


def checked_numbers(ids: Iterable[int], *, size: int) -> list[int]:
    """The numbers as integers; one that no token has is an error."""
    numbers = [int(number) for number in ids]
    for number in numbers:
        if not 0 <= number < size:
            raise RegardError(
                f"There is no token {number}: this vocabulary has the numbers 0 to {size - 1}. "
                "Use the vocabulary the model was trained with."
            )
    return numbers


def class_of(kind: str) -> type[Vocabulary]:
    """The class of a kind, imported when it is asked for."""
    entry = look_up("vocabulary", kind, VOCABULARIES)
    found: type[Vocabulary] = getattr(importlib.import_module(entry.module), entry.class_name)
    return found


def fingerprint_of(record: dict[str, Any]) -> str:
    """A hash of JSON values that does not depend on the order of keys."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


# The one spelling of a text: Unicode NFC, so that é is the same however it was typed.


def normal_text(text: str, *, lowercase: bool = False) -> str:
    """The text in composed form (NFC); with `lowercase`, in small letters first.

    >>> normal_text("Cafe\\u0301", lowercase=True) == "caf\\u00e9"
    True
    """
    return unicodedata.normalize("NFC", text.lower() if lowercase else text)
