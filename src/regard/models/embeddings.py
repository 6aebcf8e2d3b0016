"""Embeddings: tokens, segments, and words with hashed bigrams and affixes.

TokenEmbedding     √model_dim · E[token]; logits hidden · Eᵀ where input and output are tied
SegmentEmbedding   added to the token embedding of BERT-style encoders
WordEmbedding      E[wₜ] + B[hash(wₜ, wₜ₊₁)] + mean of A[hash(affix)], for text classifiers
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.batches import PAD, SPECIAL_TOKENS, UNKNOWN
from regard.core.cost import Cost, linear_cost
from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape
from regard.layers.dropout import Dropout
from regard.layers.validation import validate_positive
from regard.models.validation import validate_fractions, validate_sizes, validate_sizes_or_zero

# BERT's (Devlin et al. 2019), for sums that a layer norm follows.
UNSCALED_INIT_STD = 0.02
WORD_INIT_STD = 0.1


class TokenEmbedding(nn.Module):
    """Token embedding with weight tying (Press and Wolf 2017; Vaswani et al. 2017, section 3.4).

    Vectors are initialised to norm about 1, so that tied logits start small; with `scaled` they are
    multiplied by √model_dim on input.
    """

    def __init__(self, *, vocabulary: int, model_dim: int, scaled: bool = True) -> None:
        super().__init__()
        validate_positive("TokenEmbedding", vocabulary=vocabulary, model_dim=model_dim)
        self.table = nn.Embedding(vocabulary, model_dim)
        nn.init.normal_(self.table.weight, std=model_dim**-0.5 if scaled else UNSCALED_INIT_STD)
        self.scale = math.sqrt(model_dim) if scaled else 1.0

    def forward(
        self, tokens: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
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

    def cost(self, *, rows: int) -> Cost:
        """Cost of `forward` for `rows` tokens: a lookup is not a matrix product."""
        numbers, scaled = rows * self.table.embedding_dim, self.scale != 1.0
        return Cost(
            elementwise_ops=numbers if scaled else 0,
            memory=2 * numbers if scaled else numbers,
            parameters=self.table.weight.numel(),
        )

    def logits_cost(self, *, rows: int) -> Cost:
        """Cost of `logits`; its parameters are counted by `cost`."""
        width, vocabulary = self.table.embedding_dim, self.table.num_embeddings
        product = linear_cost(rows=rows, in_features=width, out_features=vocabulary, bias=False)
        return replace(product, parameters=0)


class SegmentEmbedding(nn.Module):
    """Adds a learned vector per segment (Devlin et al. 2019, section 3); default: all segment 0."""

    def __init__(self, *, num_segments: int, model_dim: int) -> None:
        super().__init__()
        validate_positive("SegmentEmbedding", num_segments=num_segments, model_dim=model_dim)
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

    def cost(self, shape: SequenceShape) -> Cost:
        """Cost of `forward` with segments: a lookup is not a matrix product."""
        numbers = shape.positions * self.table.embedding_dim
        return Cost(
            elementwise_ops=numbers, memory=2 * numbers, parameters=self.table.weight.numel()
        )


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

    def __init__(self, *, vocabulary: int, model_dim: int, num_buckets: int) -> None:
        super().__init__()
        validate_positive("AffixEmbedding", vocabulary=vocabulary, model_dim=model_dim)
        if num_buckets < 2:
            raise RegardError(
                f"model.affix_buckets={num_buckets}: it must be 0 (off), or 2 or more."
            )
        self.table = nn.Embedding(num_buckets, model_dim, padding_idx=NO_AFFIX)
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

    def cost(self, *, rows: int) -> Cost:
        """Cost of `forward` for `rows` words: a sum over the affixes and a scale."""
        numbers = rows * self.table.embedding_dim
        return Cost(
            elementwise_ops=(MAX_AFFIXES + 1) * numbers,
            memory=(MAX_AFFIXES + 2) * numbers,
            parameters=self.table.weight.numel(),
        )


# An odd multiplier and a prime below 2³¹ spread bigrams over the buckets.
MULTIPLIER, PRIME = 1_000_003, 2_147_483_647

# Per bigram: its hash and the padding check; with sentences, the check for one sentence too.
BIGRAM_OPS = 6
SENTENCE_OPS = 2


class WordEmbedding(nn.Module):
    """Word embedding plus hashed bigram and affix embeddings.

    A bigram such as "not good" has its own vector (Wang and Manning 2012), hashed as in fastText (Joulin
    et al. 2017), so no list of bigrams is stored. The last word of a text or sentence has no bigram.

    bigram_buckets  rows of the hashed bigram table; 0: no bigrams
    affix_buckets   rows of the hashed prefix and suffix table; 0: none. It needs `set_words`.
    dropout         of features; `word_dropout` replaces whole words by UNKNOWN in training
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        model_dim: int,
        bigram_buckets: int = 0,
        affix_buckets: int = 0,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        validate_positive("WordEmbedding", vocabulary=vocabulary)
        validate_sizes(model_dim=model_dim)
        validate_sizes_or_zero(bigram_buckets=bigram_buckets)
        validate_fractions(word_dropout=word_dropout)
        self.embedding = TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim, scaled=False)
        nn.init.normal_(self.embedding.table.weight, std=WORD_INIT_STD)
        self.pairs = None
        if bigram_buckets:
            self.pairs = nn.Embedding(bigram_buckets, model_dim)
            # Most bigrams are rare, so they start with little influence.
            nn.init.normal_(self.pairs.weight, std=WORD_INIT_STD / 5)
        self.spelling = (
            AffixEmbedding(vocabulary=vocabulary, model_dim=model_dim, num_buckets=affix_buckets)
            if affix_buckets
            else None
        )
        self.dropout = Dropout(dropout)
        self.word_dropout = word_dropout

    def set_words(self, words: Sequence[str]) -> None:
        """Set the words of the vocabulary for the affix embedding, if there is one."""
        if self.spelling is not None:
            self.spelling.set_words(words)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length model_dim"]:
        """Embed padded texts; with `segments`, bigrams do not cross sentences."""
        if self.training and self.word_dropout:
            dropped = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(dropped & (tokens != PAD), UNKNOWN)
        vectors: Tensor = self.embedding(tokens)
        if self.pairs is not None:
            vectors = vectors + self._bigram_vectors(self.pairs, tokens, lengths, segments)
        if self.spelling is not None:
            vectors = vectors + self.spelling(tokens)
        out: Tensor = self.dropout(vectors)
        return out

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

    def cost(self, *, rows: int, texts: int, sentences: bool = False) -> Cost:
        """Cost of `forward` for `rows` words in `texts` texts; `sentences`: whether segments are given."""
        numbers = rows * self.embedding.table.embedding_dim
        total = self.embedding.cost(rows=rows)
        if self.pairs is not None:
            total += Cost(
                elementwise_ops=numbers + self._bigram_ops(rows - texts, sentences=sentences),
                memory=2 * numbers,
                parameters=self.pairs.weight.numel(),
            )
        if self.spelling is not None:
            total += self.spelling.cost(rows=rows) + Cost(elementwise_ops=numbers, memory=numbers)
        return total

    def _bigram_ops(self, bigrams: int, *, sentences: bool) -> int:
        per_bigram = BIGRAM_OPS + (SENTENCE_OPS if sentences else 0)
        return bigrams * (self.embedding.table.embedding_dim + per_bigram)
