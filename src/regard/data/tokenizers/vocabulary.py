"""Tokenizers: text to token ids and back. The `Vocabulary` interface and the table of its kinds.

    vocabulary = build_vocabulary("words", ["a rose is", "a rose"])
    vocabulary.encode("a rose was")      [4, 5, 3]     3 is UNKNOWN
    vocabulary.decode([4, 5, 2, 0])      "a rose"      special tokens are dropped

Ids below `FIRST_TOKEN` are the special tokens, the same in every vocabulary. No text encodes to PAD, START
or END: the word "<pad>" is an ordinary word.
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

from regard.core.batches import SPECIAL_TOKENS, UNKNOWN
from regard.core.errors import RegardError
from regard.core.registry import build_from_signature, lookup

FIRST_TOKEN = len(SPECIAL_TOKENS)
"""The first id that is not a special token."""


class VocabularyKind(NamedTuple):
    """Module and class of a kind of vocabulary."""

    module: str
    class_name: str


VOCABULARIES: dict[str, VocabularyKind] = {
    "characters": VocabularyKind("regard.data.tokenizers.word_level", "CharacterVocabulary"),
    "characters_and_tags": VocabularyKind(
        "regard.data.tokenizers.word_level", "CharacterTagVocabulary"
    ),
    "words": VocabularyKind("regard.data.tokenizers.word_level", "WordVocabulary"),
    "word_punct": VocabularyKind("regard.data.tokenizers.word_level", "WordPunctVocabulary"),
    "subwords": VocabularyKind("regard.data.tokenizers.subword", "SubwordVocabulary"),
    "wordpiece": VocabularyKind("regard.data.tokenizers.subword", "WordPieceVocabulary"),
}


class Vocabulary(ABC):
    """A fixed list of tokens with `encode` and `decode`; `tokens[i]` has the id FIRST_TOKEN + i."""

    kind: ClassVar[str]
    # What is unknown if it is not in the vocabulary.
    unit: ClassVar[str] = "words"

    def __init__(self, *, tokens: Sequence[str], lowercase: bool) -> None:
        self.tokens = tuple(tokens)
        self.lowercase = lowercase
        check_tokens(self.tokens, kind=self.kind)

    @property
    def size(self) -> int:
        """Number of ids, special tokens included."""
        return FIRST_TOKEN + len(self.tokens)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The token ids of a text, without START and END; out-of-vocabulary tokens become UNKNOWN."""

    @abstractmethod
    def unknown(self, text: str) -> list[str]:
        """The words, or characters, of a text that are encoded as UNKNOWN."""

    def typed(self, text: str) -> str:
        """A text typed by a user, as it would be read from a file."""
        return text

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The token ids of many texts, in order."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special tokens are dropped."""

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """One token per id, special tokens included, for display; a space shows as ␣."""
        labels = (*SPECIAL_TOKENS, *self.tokens)
        return [labels[each].replace(" ", "␣") for each in check_ids(ids, size=self.size)]

    def plain_tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of these ids, without special tokens."""
        checked = check_ids(ids, size=self.size)
        return [self.tokens[each - FIRST_TOKEN] for each in checked if each >= FIRST_TOKEN]

    def contents(self) -> dict[str, Any]:
        """The arguments of `from_contents`, as JSON values."""
        return {"lowercase": self.lowercase, "tokens": list(self.tokens)}

    @classmethod
    @abstractmethod
    def build(cls, texts: Iterable[str]) -> Self:
        """Build the vocabulary from texts, in one pass; options are keywords."""

    @classmethod
    @abstractmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """Restore the vocabulary from its `contents`."""

    def as_json(self) -> dict[str, Any]:
        """The vocabulary as JSON values, with a fingerprint to detect changes."""
        record = {"kind": self.kind, **self.contents()}
        return {**record, "fingerprint": fingerprint_of(record)}


def build_vocabulary(kind: str, texts: Iterable[str], **options: Any) -> Vocabulary:
    """Build a vocabulary of the named kind from texts, in one pass; the result is deterministic.

    >>> build_vocabulary("characters", ["abba"]).encode("bad")
    [5, 4, 3]
    """
    builder = partial(vocabulary_class(kind).build, texts)
    return build_from_signature(builder, what=f"vocabulary '{kind}'", sizes={}, options=options)


def load_vocabulary(record: object) -> Vocabulary:
    """Restore the vocabulary written by `as_json`; raises if the record was changed."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise invalid_vocabulary("it is not a JSON object with a 'kind'")
    found_class = vocabulary_class(record["kind"])
    contents = {name: value for name, value in record.items() if name != "fingerprint"}
    if record.get("fingerprint") != fingerprint_of(contents):
        raise invalid_vocabulary("its fingerprint does not match its contents")
    tokens, lowercase = contents.get("tokens"), contents.get("lowercase")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise invalid_vocabulary("'tokens' is not a list of strings")
    if not isinstance(lowercase, bool):
        raise invalid_vocabulary("'lowercase' is not a Boolean")
    return found_class.from_contents(contents)


def invalid_vocabulary(reason: str) -> RegardError:
    """The error for a vocabulary record that was changed."""
    return RegardError(
        f"Invalid vocabulary: {reason}. Token ids would no longer match the model's embeddings. "
        "Restore the original file, or build the vocabulary again."
    )


def check_tokens(tokens: Sequence[str], *, kind: str) -> None:
    """Raise on an empty list of tokens, an empty token or a duplicate."""
    if not tokens:
        raise RegardError(
            f"A vocabulary of {kind} has no tokens: the texts are empty, or min_count is too high. "
            "Give it text, or lower min_count."
        )
    if len(set(tokens)) < len(tokens) or "" in tokens:
        raise invalid_vocabulary("a token is empty or occurs twice")


def check_ids(ids: Iterable[int], *, size: int) -> list[int]:
    """The ids as integers; raises on an id outside the vocabulary."""
    checked = [int(each) for each in ids]
    for each in checked:
        if not 0 <= each < size:
            raise RegardError(
                f"There is no token {each}: the ids of this vocabulary are 0 to {size - 1}. "
                "Use the vocabulary the model was trained with."
            )
    return checked


def vocabulary_class(kind: str) -> type[Vocabulary]:
    """The class of a kind of vocabulary, imported lazily."""
    entry = lookup("vocabulary", kind, VOCABULARIES)
    found: type[Vocabulary] = getattr(importlib.import_module(entry.module), entry.class_name)
    return found


def fingerprint_of(record: dict[str, Any]) -> str:
    """A hash of JSON values, independent of the order of keys."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def normalize_text(text: str, *, lowercase: bool = False) -> str:
    """The text in Unicode NFC; with `lowercase`, lower-cased first.

    >>> normalize_text("Cafe\\u0301", lowercase=True) == "caf\\u00e9"
    True
    """
    return unicodedata.normalize("NFC", text.lower() if lowercase else text)


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
        typed = [self._vocabulary.typed(text) for text in texts]
        for text, ids in zip(typed, self._vocabulary.encode_all(typed), strict=True):
            if UNKNOWN in ids:
                self._count += 1
                if len(self._found) <= SHOWN:
                    self._found.update(dict.fromkeys(self._vocabulary.unknown(text)))

    def describe(self) -> str:
        """One line; empty if nothing is unknown.

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
