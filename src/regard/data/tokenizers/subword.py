"""Subword vocabularies: byte-pair encoding and WordPiece, through Hugging Face `tokenizers`.

    subwords     "A man's dog."     ▁A · ▁man · ' · s · ▁dog · .       BPE (Sennrich et al. 2016)
    wordpiece    "The dogs run."    the · dog · ##s · run · .          with lowercase

BPE starts from single characters and merges the most frequent pairs until there are `size` tokens. Merges
stay inside a word, a number or a punctuation mark, each with the space before it, written ▁ (as in
SentencePiece). Decoding is lossless for known characters, up to NFC, lower-casing and white space: a run
of it becomes one space, and ▁ itself counts as white space. Tokens are characters, not bytes, so every
token is readable; unseen characters become UNKNOWN.

WordPiece splits at white space and around punctuation, then each word greedily into the longest known
pieces, with ## before those that do not begin a word (Schuster & Nakajima 2012, Devlin et al. 2019). A word
with an unseen character is UNKNOWN as a whole. Decoding puts one space between words and punctuation.
START and END are [CLS] and [SEP]; the first token of its own is [MASK], also where a text spells it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, ClassVar, Self

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Split, WhitespaceSplit
from tokenizers.trainers import BpeTrainer, WordPieceTrainer

from regard.core.batches import SPECIAL_TOKENS, UNKNOWN
from regard.core.errors import RegardError
from regard.data.tokenizers.vocabulary import (
    FIRST_TOKEN,
    Vocabulary,
    check_tokens,
    invalid_vocabulary,
    normalize_text,
)

SPACE = "▁"
# A word with its diacritics, a number, or one other character, each with the space before it.
PRE_TOKEN = Regex(r"▁?[\p{L}\p{M}]+|▁?\p{N}+|▁?[^▁\p{L}\p{M}\p{N}]")

INSIDE = "##"
MASK = "[MASK]"
MASK_ID = FIRST_TOKEN
RESERVED = (*SPECIAL_TOKENS, MASK)
# Removes control characters and isolates Chinese characters; accents and case stay.
BERT_NORMALIZER = BertNormalizer(
    clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False
)
BERT_PRE_TOKENIZER = BertPreTokenizer()


class SubwordVocabulary(Vocabulary):
    """Byte-pair encoding; `merges` are applied in order."""

    kind: ClassVar[str] = "subwords"
    unit: ClassVar[str] = "characters"

    def __init__(
        self, *, tokens: Sequence[str], merges: Sequence[tuple[str, str]], lowercase: bool
    ) -> None:
        super().__init__(tokens=tokens, lowercase=lowercase)
        self.merges = tuple(merges)
        id_of = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *self.tokens))}
        model = BPE(vocab=id_of, merges=list(self.merges), unk_token=SPECIAL_TOKENS[UNKNOWN])
        self._tokenizer = _tokenizer_for(model)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text."""
        ids: list[int] = self._tokenizer.encode(self._normalize(text)).ids
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The token ids of many texts, on all cores."""
        normalized = [self._normalize(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(normalized)]

    def unknown(self, text: str) -> list[str]:
        """The characters that are no token: all others can be merged from."""
        return [each for each in self._normalize(text) if each not in self.tokens]

    def decode(self, ids: Iterable[int]) -> str:
        """The subwords concatenated, ▁ as a space."""
        return "".join(self.plain_tokens(ids)).replace(SPACE, " ").strip()

    def contents(self) -> dict[str, Any]:
        """Tokens, merges and `lowercase`."""
        return {**super().contents(), "merges": [list(pair) for pair in self.merges]}

    @classmethod
    def build(cls, texts: Iterable[str], *, size: int = 8000, lowercase: bool = False) -> Self:
        """At most `size` tokens, special tokens included; fewer if the texts have no more to merge."""
        if size <= FIRST_TOKEN:
            raise RegardError(
                f"size={size} is too small for subwords: {FIRST_TOKEN} ids are special tokens. "
                "Use a size such as 8000."
            )
        tokenizer = _tokenizer_for(BPE())
        trainer = BpeTrainer(
            vocab_size=size, special_tokens=list(SPECIAL_TOKENS), show_progress=False
        )
        normalized = (mark_spaces(text, lowercase=lowercase) for text in texts)
        tokenizer.train_from_iterator(normalized, trainer=trainer)
        model = json.loads(tokenizer.to_str())["model"]
        tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)[FIRST_TOKEN:]
        merges = [(left, right) for left, right in model["merges"]]
        if len(tokens) + FIRST_TOKEN > size:
            raise RegardError(
                f"size={size} is too small for subwords: the texts have {len(tokens)} different "
                f"characters, and {FIRST_TOKEN} ids are special tokens. Use a larger size, "
                f"such as {max(2 * len(tokens), 1000)}."
            )
        return cls(tokens=tokens, merges=merges, lowercase=lowercase)

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """Restore the vocabulary; every merge must join two of its tokens to a token."""
        tokens, merges = contents["tokens"], contents.get("merges")
        if not isinstance(merges, list):
            raise invalid_vocabulary("'merges' is not a list of pairs")
        known = set(tokens)
        if not known.isdisjoint(SPECIAL_TOKENS):
            raise invalid_vocabulary("a special token is among its tokens")
        for pair in merges:
            if not (
                isinstance(pair, list)
                and len(pair) == 2
                and all(isinstance(part, str) for part in pair)
                and {*pair, "".join(pair)} <= known
            ):
                raise invalid_vocabulary(f"{pair!r} is not a merge of two of its tokens")
        pairs = [(left, right) for left, right in merges]
        return cls(tokens=tokens, merges=pairs, lowercase=contents["lowercase"])

    def _normalize(self, text: str) -> str:
        return mark_spaces(text, lowercase=self.lowercase)


def mark_spaces(text: str, *, lowercase: bool) -> str:
    """The text in NFC with ▁ before every word.

    >>> mark_spaces(" Two  dogs.", lowercase=True)
    '▁two▁dogs.'
    """
    words = normalize_text(text, lowercase=lowercase).replace(SPACE, " ").split()
    return "".join(SPACE + word for word in words)


def _tokenizer_for(model: BPE) -> Tokenizer:
    """A tokenizer that merges within words, numbers and punctuation marks."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = Split(PRE_TOKEN, behavior="isolated")
    return tokenizer


class WordPieceVocabulary(Vocabulary):
    """WordPiece, as in BERT: pieces that begin a word, and ## pieces inside one."""

    kind: ClassVar[str] = "wordpiece"

    def __init__(self, *, tokens: Sequence[str], lowercase: bool) -> None:
        super().__init__(tokens=tokens, lowercase=lowercase)
        if self.tokens[0] != MASK:
            raise invalid_vocabulary(f"its first token is {self.tokens[0]!r}, not {MASK}")
        id_of = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *self.tokens))}
        self._tokenizer = Tokenizer(WordPiece(vocab=id_of, unk_token=SPECIAL_TOKENS[UNKNOWN]))
        self._tokenizer.normalizer = BERT_NORMALIZER
        self._tokenizer.pre_tokenizer = BERT_PRE_TOKENIZER
        self._tokenizer.add_special_tokens([AddedToken(MASK, normalized=False)])

    def encode(self, text: str) -> list[int]:
        """The token ids of a text; "[MASK]" in it becomes MASK_ID."""
        ids: list[int] = self._tokenizer.encode(self._normalize(text)).ids
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The token ids of many texts, on all cores."""
        normalized = [self._normalize(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(normalized)]

    def unknown(self, text: str) -> list[str]:
        """The words that no pieces spell."""
        words = bert_tokenize(text.replace(MASK, " "), lowercase=self.lowercase)
        return [word for word in words if UNKNOWN in self.encode(word)]

    def decode(self, ids: Iterable[int]) -> str:
        """The words, joined by spaces; pieces of one word concatenated."""
        words: list[str] = []
        for token in self.plain_tokens(ids):
            if token.startswith(INSIDE) and words:
                words[-1] += token.removeprefix(INSIDE)
            else:
                words.append(token.removeprefix(INSIDE))
        return " ".join(words)

    @classmethod
    def build(cls, texts: Iterable[str], *, size: int = 8000, lowercase: bool = False) -> Self:
        """At most `size` tokens, special tokens included; fewer if the texts have no more to merge."""
        words: Counter[str] = Counter()
        for text in texts:
            words.update(bert_tokenize(text.replace(MASK, " "), lowercase=lowercase))
        check_tokens(tuple(words), kind=cls.kind)
        alphabet = sorted({word[0] for word in words})
        alphabet += sorted({INSIDE + character for word in words for character in word[1:]})
        if (least := len(RESERVED) + len(alphabet)) > size:
            raise RegardError(
                f"size={size} is too small for WordPiece: the texts need {len(alphabet)} single "
                f"characters, and {len(RESERVED)} ids are special tokens. Use a larger size, such as "
                f"{max(2 * least, 1000)}."
            )
        tokenizer = Tokenizer(WordPiece(unk_token=SPECIAL_TOKENS[UNKNOWN]))
        tokenizer.pre_tokenizer = WhitespaceSplit()
        # The trainer numbers characters in no fixed order and breaks ties by id. A sorted alphabet,
        # passed as special tokens, makes the vocabulary deterministic.
        trainer = WordPieceTrainer(
            vocab_size=size, special_tokens=[*RESERVED, *alphabet], show_progress=False
        )
        tokenizer.train_from_iterator(_repeated(words), trainer=trainer)
        id_of = tokenizer.get_vocab()
        tokens = sorted(id_of, key=id_of.__getitem__)[FIRST_TOKEN:]
        return cls(tokens=tokens, lowercase=lowercase)

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """Restore the vocabulary; every token must be a piece of some word."""
        tokens, lowercase = contents["tokens"], contents["lowercase"]
        for token in tokens[1:]:
            piece = token.removeprefix(INSIDE)
            if bert_tokenize(piece, lowercase=lowercase) != [piece]:
                raise invalid_vocabulary(f"{token!r} is not a piece of any word")
        return cls(tokens=tokens, lowercase=lowercase)

    def _normalize(self, text: str) -> str:
        """The text in NFC, lower-cased if set, except for [MASK]."""
        parts = (normalize_text(part, lowercase=self.lowercase) for part in text.split(MASK))
        return MASK.join(parts)


def bert_tokenize(text: str, *, lowercase: bool) -> list[str]:
    """The words and punctuation marks of a text, as BERT's basic tokenizer splits them.

    >>> bert_tokenize("A man's dog.", lowercase=True)
    ['a', 'man', "'", 's', 'dog', '.']
    """
    clean = BERT_NORMALIZER.normalize_str(normalize_text(text, lowercase=lowercase))
    return [piece for piece, _ in BERT_PRE_TOKENIZER.pre_tokenize_str(clean)]


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Every word as often as it occurred."""
    return (word for word in sorted(words) for word in repeat(word, words[word]))
