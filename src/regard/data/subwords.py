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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Split
from tokenizers.trainers import BpeTrainer

from regard.core.errors import RegardError
from regard.core.special_tokens import SPECIAL_TOKENS, UNKNOWN
from regard.data.normal_text import normal_text
from regard.data.vocabulary import FIRST_TOKEN, Vocabulary, broken_vocabulary

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
