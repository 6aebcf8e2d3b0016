"""Token embeddings: the stems of texts, `stem(input: TokenInput) -> FrameInput`.

    TokenEmbedding     √model_dim · E[token]; logits hidden · Eᵀ where input and output are tied
    WordEmbedding      E[wₜ] + B[hash(wₜ, wₜ₊₁)] + mean of A[hash(affix)], for text classifiers

`SegmentEmbedding` is added to the tokens of BERT-style encoders. The stems of frames and images are in
`models.stems`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.core.batches import (
    PAD,
    SPECIAL_TOKENS,
    UNKNOWN,
    FrameInput,
    TokenInput,
)
from regard.core.errors import RegardError
from regard.core.options import NonNegativeInt, PositiveInt, Probability, validated
from regard.layers.dropout import Dropout

# BERT's (Devlin et al. 2019), for sums that a layer norm follows.
UNSCALED_INIT_STD = 0.02
WORD_INIT_STD = 0.1


class TokenEmbedding(nn.Module):
    """Token embedding with weight tying (Press and Wolf 2017; Vaswani et al. 2017, section 3.4).

    Vectors are initialised to norm about 1, so that tied logits start small; with `scaled` they are
    multiplied by √model_dim on input. With `initialised=False` the caller initialises them.
    """

    @validated
    def __init__(
        self,
        *,
        vocabulary: PositiveInt,
        model_dim: PositiveInt,
        scaled: bool = True,
        initialised: bool = True,
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, model_dim)
        if initialised:
            std = model_dim**-0.5 if scaled else UNSCALED_INIT_STD
            nn.init.normal_(self.table.weight, std=std)
        self.scale = math.sqrt(model_dim) if scaled else 1.0

    def forward(self, input: TokenInput) -> FrameInput:
        return FrameInput(self.embed(input.tokens), input.lengths, input.padded)

    def embed(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length model_dim"]:
        """The vectors of tokens, such as those of a decoder."""
        try:
            embedded = F.embedding(tokens, self.table.weight)
        except IndexError:
            raise RegardError(
                f"Token ids range from {int(tokens.min())} to {int(tokens.max())}, but the embedding has "
                f"{self.table.num_embeddings} rows: ids must be from 0 to below that. Build the model "
                "with the size of the tokenizer's vocabulary."
            ) from None
        return embedded if self.scale == 1.0 else embedded * self.scale

    def logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions vocabulary"]:
        """Scores over the vocabulary."""
        return F.linear(hidden, self.table.weight)

    def transposed(self) -> Float[Tensor, "model_dim vocabulary"]:
        """A contiguous copy of Eᵀ: `hidden @ Eᵀ` is faster than `logits` for few rows at a time."""
        return self.table.weight.t().contiguous()


def drop_tokens(
    tokens: Int[Tensor, "batch length"], probability: float, *, keep: tuple[int, ...]
) -> Int[Tensor, "batch length"]:
    """Replace tokens by UNKNOWN at random, except those to keep."""
    dropped = torch.rand(tokens.shape, device=tokens.device) < probability
    for token in keep:
        dropped = dropped & (tokens != token)
    return tokens.masked_fill(dropped, UNKNOWN)


class SegmentEmbedding(nn.Module):
    """Adds a learned vector per segment (Devlin et al. 2019, section 3); default: all segment 0."""

    @validated
    def __init__(self, *, num_segments: PositiveInt, model_dim: PositiveInt) -> None:
        super().__init__()
        self.table = nn.Embedding(num_segments, model_dim)
        nn.init.normal_(self.table.weight, std=UNSCALED_INIT_STD)

    def forward(
        self,
        x: Float[Tensor, "batch length model_dim"],
        segments: Int[Tensor, "batch length"] | None,
    ) -> Float[Tensor, "batch length model_dim"]:
        if segments is None:
            return x + self.table.weight[0]
        if segments.shape != x.shape[:2]:
            raise RegardError(
                f"segments have the shape {tuple(segments.shape)} and tokens {tuple(x.shape[:2])}: "
                "pass one segment id per token, or None for a single text."
            )
        try:
            embedded: Tensor = x + self.table(segments)
        except IndexError:
            raise RegardError(
                f"Segment ids range from {int(segments.min())} to {int(segments.max())}, but the model "
                f"has num_segments={self.table.num_embeddings}: ids must be from 0 to below that. "
                "Build the model with a larger num_segments."
            ) from None
        return embedded


PREFIX_LENGTHS = (3, 4, 5, 6)
SUFFIX_LENGTHS = (2, 3, 4)
MAX_AFFIXES = len(PREFIX_LENGTHS) + len(SUFFIX_LENGTHS)

NO_AFFIX = 0  # this row stays zero


def affixes(word: str) -> list[str]:
    """Prefixes and suffixes of a word, with "<" and ">" marking the word boundary.

    >>> affixes("river")
    ['<riv', '<rive', '<river', 'er>', 'ver>', 'iver>']
    >>> affixes("a")
    []
    """
    prefixes = [f"<{word[:size]}" for size in PREFIX_LENGTHS if len(word) >= size]
    return prefixes + [f"{word[-size:]}>" for size in SUFFIX_LENGTHS if len(word) > size]


class AffixEmbedding(nn.Module):
    """Mean of the hashed embeddings of a word's prefixes and suffixes.

    Words spelled alike share vectors, which helps rare words most. All character n-grams, as in fastText
    (Bojanowski et al. 2017), were no better in trials and are four times as many.
    """

    buckets: Tensor
    scales: Tensor

    @validated
    def __init__(
        self,
        *,
        vocabulary: PositiveInt,
        model_dim: PositiveInt,
        affix_buckets: Annotated[int, Field(ge=2)],
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(affix_buckets, model_dim, padding_idx=NO_AFFIX)
        nn.init.normal_(self.table.weight, std=WORD_INIT_STD)
        with torch.no_grad():
            self.table.weight[NO_AFFIX] = 0
        # Not saved with the parameters: they follow from the vocabulary, which is saved beside them.
        no_affixes = torch.full((vocabulary, MAX_AFFIXES), NO_AFFIX)
        self.register_buffer("buckets", no_affixes, persistent=False)
        self.register_buffer("scales", torch.zeros(vocabulary, 1), persistent=False)
        self.has_words = False

    def set_words(self, words: Sequence[str]) -> None:
        """Set the words of the vocabulary, in order of their ids, without the special tokens."""
        first, vocabulary = len(SPECIAL_TOKENS), len(self.buckets)
        if first + len(words) != vocabulary:
            raise RegardError(
                f"set_words got {len(words)} words for a vocabulary of {vocabulary - first}. Pass the "
                "words of the tokenizer's vocabulary, in order of their ids."
            )
        for token, word in enumerate(words, start=first):
            found = [self._bucket(affix) for affix in affixes(word.lower())]
            self.buckets[token, : len(found)] = torch.tensor(found, dtype=torch.long)
            self.scales[token] = 1 / len(found) if found else 0.0
        self.has_words = True

    def forward(
        self, tokens: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        if not self.has_words:
            raise RegardError(
                "The affix embedding has no words. Call set_words(words) with the words of the "
                "vocabulary first."
            )
        vectors: Tensor = self.table(self.buckets[tokens])
        return vectors.sum(dim=-2) * self.scales[tokens]

    def _bucket(self, affix: str) -> int:
        """The hash bucket of an affix, never `NO_AFFIX`."""
        return 1 + zlib.crc32(affix.encode()) % (self.table.num_embeddings - 1)


# An odd multiplier and a prime below 2³¹ spread bigrams over the buckets.
MULTIPLIER, PRIME = 1_000_003, 2_147_483_647


class WordEmbedding(nn.Module):
    """Word embedding plus hashed bigram and affix embeddings.

    A bigram such as "not good" has its own vector (Wang and Manning 2012), hashed as in fastText (Joulin
    et al. 2017), so no list of bigrams is stored. The last word of a text or sentence has no bigram.

    bigram_buckets  rows of the hashed bigram table; 0: no bigrams
    affix_buckets   rows of the hashed prefix and suffix table; 0: none. It needs `set_words`.
    dropout         of features; `word_dropout` replaces whole words by UNKNOWN in training
    in_sentences    whether segments are sentences, which bigrams do not cross
    """

    @validated
    def __init__(
        self,
        *,
        vocabulary: PositiveInt,
        model_dim: PositiveInt,
        bigram_buckets: NonNegativeInt = 0,
        affix_buckets: NonNegativeInt = 0,
        dropout: Probability = 0.0,
        word_dropout: Probability = 0.0,
        in_sentences: bool = False,
    ) -> None:
        super().__init__()
        self.in_sentences = in_sentences
        self.embedding = TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim, scaled=False)
        nn.init.normal_(self.embedding.table.weight, std=WORD_INIT_STD)
        self.pairs = None
        if bigram_buckets:
            self.pairs = nn.Embedding(bigram_buckets, model_dim)
            # Most bigrams are rare, so they start with little influence.
            nn.init.normal_(self.pairs.weight, std=WORD_INIT_STD / 5)
        self.spelling = (
            AffixEmbedding(vocabulary=vocabulary, model_dim=model_dim, affix_buckets=affix_buckets)
            if affix_buckets
            else None
        )
        self.dropout = Dropout(dropout)
        self.word_dropout = word_dropout

    def set_words(self, words: Sequence[str]) -> None:
        """Set the words of the vocabulary for the affix embedding, if there is one."""
        if self.spelling is not None:
            self.spelling.set_words(words)

    def forward(self, input: TokenInput) -> FrameInput:
        tokens = input.tokens
        if self.training and self.word_dropout:
            tokens = drop_tokens(tokens, self.word_dropout, keep=(PAD,))
        vectors = self.embedding.embed(tokens)
        if self.pairs is not None:
            segments = input.segments if self.in_sentences else None
            vectors = vectors + self._bigram_vectors(self.pairs, tokens, input.lengths, segments)
        if self.spelling is not None:
            vectors = vectors + self.spelling(tokens)
        return FrameInput(self.dropout(vectors), input.lengths, input.padded)

    def _bigram_vectors(
        self, table: nn.Embedding, tokens: Tensor, lengths: Tensor, segments: Tensor | None
    ) -> Tensor:
        """The vector of each word's bigram with the next word; zeros where there is none."""
        hashes = (tokens[:, :-1] * MULTIPLIER + tokens[:, 1:]) * MULTIPLIER % PRIME
        vectors = table(hashes % table.num_embeddings)
        positions = torch.arange(1, tokens.shape[1], device=tokens.device)
        is_bigram = positions < lengths[:, None]
        if segments is not None:
            is_bigram = is_bigram & (segments[:, 1:] == segments[:, :-1])
        return nn.functional.pad(vectors * is_bigram[:, :, None], (0, 0, 0, 1))
