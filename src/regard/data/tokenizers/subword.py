"""A vocabulary of subwords, by byte-pair encoding (Sennrich et al. 2016) through `tokenizers`.

    "A man's dog."  →  ▁A · ▁man · ' · s · ▁dog · .

Training starts from single characters and joins the most frequent neighbours until there are `size`
tokens. Joins stay inside a word, a number or a punctuation mark, each with the space before it: ▁ is
that space, so decoding is joining the tokens and turning ▁ into a space, and a full stop comes back
where it stood. A mark after a space ("dog .") may be one token too.

A text of known characters comes back exactly, up to NFC, small letters if asked, and white space: a
run of it becomes one space, none is kept at the ends, and ▁ itself counts as white space.
Characters that were not in the training texts become UNKNOWN. The tokens are characters and not
bytes, so every token is readable in a picture and small vocabularies spend nothing on parts of letters.
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
    broken_vocabulary,
    check_tokens,
    normal_text,
)

SPACE = "▁"

# A word with its marks, a number, or one other sign, each with the space before it.
PIECE = Regex(r"▁?[\p{L}\p{M}]+|▁?\p{N}+|▁?[^▁\p{L}\p{M}\p{N}]")


class SubwordVocabulary(Vocabulary):
    """Tokens and the joins that lead to them; `merges` are tried in their order."""

    kind: ClassVar[str] = "subwords"

    def __init__(
        self, *, tokens: Sequence[str], merges: Sequence[tuple[str, str]], lowercase: bool
    ) -> None:
        super().__init__(tokens=tokens, lowercase=lowercase)
        self.merges = tuple(merges)
        numbers = {token: place for place, token in enumerate((*SPECIAL_TOKENS, *self.tokens))}
        model = BPE(vocab=numbers, merges=list(self.merges), unk_token=SPECIAL_TOKENS[UNKNOWN])
        self._tokenizer = _untrained(model)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's subwords."""
        numbers: list[int] = self._tokenizer.encode(self._spelled(text)).ids
        return numbers

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The numbers of many texts, made on all cores."""
        spelled = [self._spelled(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(spelled)]

    def decode(self, ids: Iterable[int]) -> str:
        """The subwords side by side, ▁ as a space."""
        return "".join(self.plain_tokens(ids)).replace(SPACE, " ").strip()

    def contents(self) -> dict[str, Any]:
        """Tokens, joins and whether letters are made small."""
        return {**super().contents(), "merges": [list(pair) for pair in self.merges]}

    @classmethod
    def build(cls, texts: Iterable[str], *, size: int = 8000, lowercase: bool = False) -> Self:
        """At most `size` tokens, special ones included; fewer if the texts have no more to join."""
        if size <= FIRST_TOKEN:
            raise RegardError(
                f"size={size} is too small for subwords: {FIRST_TOKEN} numbers are taken by special "
                "tokens. Use a size such as 8000."
            )
        tokenizer = _untrained(BPE())
        trainer = BpeTrainer(
            vocab_size=size, special_tokens=list(SPECIAL_TOKENS), show_progress=False
        )
        tokenizer.train_from_iterator(_spelled_all(texts, lowercase=lowercase), trainer=trainer)
        model = json.loads(tokenizer.to_str())["model"]
        tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)[FIRST_TOKEN:]
        merges = [(left, right) for left, right in model["merges"]]
        if len(tokens) + FIRST_TOKEN > size:
            raise RegardError(
                f"size={size} is too small for subwords: the texts have {len(tokens)} different "
                f"characters, and {FIRST_TOKEN} numbers are taken by special tokens. Use a larger "
                f"size, such as {max(2 * len(tokens), 1000)}."
            )
        return cls(tokens=tokens, merges=merges, lowercase=lowercase)

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """The vocabulary with these tokens and joins; every join must be of tokens, to a token."""
        tokens, merges = contents["tokens"], contents.get("merges")
        if not isinstance(merges, list):
            raise broken_vocabulary("'merges' is not a list of pairs")
        known = set(tokens)
        if not known.isdisjoint(SPECIAL_TOKENS):
            raise broken_vocabulary("a special token stands among its tokens")
        for pair in merges:
            if not (
                isinstance(pair, list)
                and len(pair) == 2
                and all(isinstance(part, str) for part in pair)
                and {*pair, "".join(pair)} <= known
            ):
                raise broken_vocabulary(f"{pair!r} is not a join of two of its tokens")
        pairs = [(left, right) for left, right in merges]
        return cls(tokens=tokens, merges=pairs, lowercase=contents["lowercase"])

    def _spelled(self, text: str) -> str:
        return spelled(text, lowercase=self.lowercase)


def spelled(text: str, *, lowercase: bool) -> str:
    """A text as it is cut: NFC, ▁ before every word.

    >>> spelled(" Two  dogs.", lowercase=True)
    '▁two▁dogs.'
    """
    words = normal_text(text, lowercase=lowercase).replace(SPACE, " ").split()
    return "".join(SPACE + word for word in words)


def _spelled_all(texts: Iterable[str], *, lowercase: bool) -> Iterator[str]:
    return (spelled(text, lowercase=lowercase) for text in texts)


def _untrained(model: BPE) -> Tokenizer:
    """A tokenizer that cuts into pieces before it joins."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = Split(PIECE, behavior="isolated")
    return tokenizer


# A vocabulary of word pieces, as encoders of the BERT family use them, through `tokenizers`.
#
# "The dogs run."  →  the · dog · ##s · run · .          with lowercase
#
# A text is cut at white space and around every punctuation mark; each word is then the longest
# pieces that are known, those inside a word marked ## (Schuster & Nakajima 2012, Devlin et al.
# 2019). A word with a character that was never seen is UNKNOWN as a whole. Unlike `subwords`, where
# spaces stood is not kept: decoding puts one between any two words and marks.
#
# START plays the part of [CLS], END that of [SEP]. The first token of its own is [MASK], the place
# of a token that is to be told; a text that spells [MASK] means it.


INSIDE = "##"
MASK = "[MASK]"
MASK_NUMBER = FIRST_TOKEN
TAKEN = (*SPECIAL_TOKENS, MASK)

# Control characters go, and a Chinese character is a word; accents stay, and case is normal_text's.
CLEANING = BertNormalizer(
    clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False
)
CUTTING = BertPreTokenizer()


class WordPieceVocabulary(Vocabulary):
    """Pieces that begin a word, and pieces that go on with one."""

    kind: ClassVar[str] = "wordpiece"

    def __init__(self, *, tokens: Sequence[str], lowercase: bool) -> None:
        super().__init__(tokens=tokens, lowercase=lowercase)
        if self.tokens[0] != MASK:
            raise broken_vocabulary(f"its first token is {self.tokens[0]!r}, not {MASK}")
        numbers = {token: place for place, token in enumerate((*SPECIAL_TOKENS, *self.tokens))}
        self._tokenizer = Tokenizer(WordPiece(vocab=numbers, unk_token=SPECIAL_TOKENS[UNKNOWN]))
        self._tokenizer.normalizer = CLEANING
        self._tokenizer.pre_tokenizer = CUTTING
        self._tokenizer.add_special_tokens([AddedToken(MASK, normalized=False)])

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's pieces; where it spells [MASK], that token's."""
        numbers: list[int] = self._tokenizer.encode(self._spelled(text)).ids
        return numbers

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The numbers of many texts, made on all cores."""
        spelled = [self._spelled(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(spelled)]

    def decode(self, ids: Iterable[int]) -> str:
        """The words with a space between; pieces of one word side by side."""
        words: list[str] = []
        for token in self.plain_tokens(ids):
            if token.startswith(INSIDE) and words:
                words[-1] += token.removeprefix(INSIDE)
            else:
                words.append(token.removeprefix(INSIDE))
        return " ".join(words)

    @classmethod
    def build(cls, texts: Iterable[str], *, size: int = 8000, lowercase: bool = False) -> Self:
        """At most `size` tokens, special ones included; fewer if the texts have no more to join."""
        words: Counter[str] = Counter()
        for text in texts:
            words.update(cut(text.replace(MASK, " "), lowercase=lowercase))
        check_tokens(tuple(words), kind=cls.kind)
        alphabet = sorted({word[0] for word in words})
        alphabet += sorted({INSIDE + character for word in words for character in word[1:]})
        if (least := len(TAKEN) + len(alphabet)) > size:
            raise RegardError(
                f"size={size} is too small for word pieces: {len(alphabet)} are needed to spell the "
                f"texts, and {len(TAKEN)} numbers are taken. Use a larger size, such as "
                f"{max(2 * least, 1000)}."
            )
        tokenizer = Tokenizer(WordPiece(unk_token=SPECIAL_TOKENS[UNKNOWN]))
        tokenizer.pre_tokenizer = WhitespaceSplit()
        # The trainer numbers characters in no fixed order and breaks ties by number, so that without
        # an alphabet that is already in order the same texts would give another vocabulary each time.
        trainer = WordPieceTrainer(
            vocab_size=size, special_tokens=[*TAKEN, *alphabet], show_progress=False
        )
        tokenizer.train_from_iterator(_repeated(words), trainer=trainer)
        numbers = tokenizer.get_vocab()
        tokens = sorted(numbers, key=numbers.__getitem__)[FIRST_TOKEN:]
        return cls(tokens=tokens, lowercase=lowercase)

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """The vocabulary with these tokens; each must be a part of a word of some text."""
        tokens, lowercase = contents["tokens"], contents["lowercase"]
        for token in tokens[1:]:
            piece = token.removeprefix(INSIDE)
            if cut(piece, lowercase=lowercase) != [piece]:
                raise broken_vocabulary(f"{token!r} is not a piece of any word")
        return cls(tokens=tokens, lowercase=lowercase)

    def _spelled(self, text: str) -> str:
        """The text in its one spelling, [MASK] kept in capitals."""
        parts = (normal_text(part, lowercase=self.lowercase) for part in text.split(MASK))
        return MASK.join(parts)


def cut(text: str, *, lowercase: bool) -> list[str]:
    """The words and marks of a text.

    >>> cut("A man's dog.", lowercase=True)
    ['a', 'man', "'", 's', 'dog', '.']
    """
    clean = CLEANING.normalize_str(normal_text(text, lowercase=lowercase))
    return [piece for piece, _ in CUTTING.pre_tokenize_str(clean)]


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Every word as often as it was seen."""
    return (word for word in sorted(words) for word in repeat(word, words[word]))
