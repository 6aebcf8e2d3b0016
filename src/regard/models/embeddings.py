"""Token embedding: a learned vector for every token, which may also score the tokens to come.

    embed    √model_dim · E[token]
    logits   hidden · Eᵀ                 (Press and Wolf 2017; Vaswani et al. 2017, section 3.4)

Vectors start with length about 1, so that logits do too, and are scaled up where they are read. Not
scaled, they start as small as BERT's (Devlin et al. 2019), for sums that a layer norm follows.
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
from regard.layers.validation import require_positive
from regard.models.validation import require_shares, require_sizes, require_sizes_or_none

UNSCALED_START = 0.02


class TokenEmbedding(nn.Module):
    """One table; a model that ties embeddings uses it in several places."""

    def __init__(self, *, vocabulary: int, model_dim: int, scaled: bool = True) -> None:
        super().__init__()
        require_positive("TokenEmbedding", vocabulary=vocabulary, model_dim=model_dim)
        self.table = nn.Embedding(vocabulary, model_dim)
        nn.init.normal_(self.table.weight, std=model_dim**-0.5 if scaled else UNSCALED_START)
        self.scale = math.sqrt(model_dim) if scaled else 1.0

    def forward(
        self, tokens: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        try:
            embedded = F.embedding(tokens, self.table.weight)
        except IndexError:
            raise RegardError(
                f"Tokens from {int(tokens.min())} to {int(tokens.max())} were given to an embedding "
                f"of {self.table.num_embeddings}: they must be from 0 to below that. Build the model "
                "with the size of the vocabulary that numbered the tokens."
            ) from None
        return embedded if self.scale == 1.0 else embedded * self.scale

    def logits(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places vocabulary"]:
        """How well each token's vector fits the hidden features."""
        return F.linear(hidden, self.table.weight)

    def columns(self) -> Float[Tensor, "model_dim vocabulary"]:
        """A copy with `hidden @ columns` equal to `logits(hidden)`, for many products of few rows."""
        return self.table.weight.t().contiguous()

    def cost(self, *, rows: int) -> Cost:
        """Looking up so many tokens, which is no product, and scaling them where they are scaled."""
        numbers, scaled = rows * self.table.embedding_dim, self.scale != 1.0
        return Cost(
            arithmetic=numbers if scaled else 0,
            memory=2 * numbers if scaled else numbers,
            parameters=self.table.weight.numel(),
        )

    def logits_cost(self, *, rows: int) -> Cost:
        """What `logits` takes, the parameters not counted again."""
        width, vocabulary = self.table.embedding_dim, self.table.num_embeddings
        product = linear_cost(rows=rows, in_features=width, out_features=vocabulary, bias=False)
        return replace(product, parameters=0)


# Segment embedding: a learned vector for the text a token belongs to, added to the token's own.
#
# Two texts that are read together are told apart by it (Devlin et al. 2019, section 3).


class SegmentEmbedding(nn.Module):
    """Adds the vector of each token's segment; where none are given, all are of segment 0."""

    def __init__(self, *, num_segments: int, model_dim: int) -> None:
        super().__init__()
        require_positive("SegmentEmbedding", num_segments=num_segments, model_dim=model_dim)
        self.table = nn.Embedding(num_segments, model_dim)
        # As small as BERT's, so that at first a token's own vector is heard.
        nn.init.normal_(self.table.weight, std=0.02)

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
                "give one segment a token, or none for a single text."
            )
        try:
            moved: Tensor = x + self.table(segments)
        except IndexError:
            raise RegardError(
                f"Segments from {int(segments.min())} to {int(segments.max())} were given to a "
                f"model with num_segments={self.table.num_embeddings}: they must be from 0 to below "
                "that. Build the model with as many segments as there are texts in a row."
            ) from None
        return moved

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes where segments are given; looking one up is no product."""
        numbers = shape.rows * self.table.embedding_dim
        return Cost(arithmetic=numbers, memory=2 * numbers, parameters=self.table.weight.numel())


# Words by how they begin and end: "developed" has vectors of its own for validation, deve, devel … and ed,
# ped.
#
# vector of a word  =  mean of S[hash(g)] over its beginnings and endings g
#
# What is learned of a word is so shared with those that are spelled alike, which helps rare ones
# most. All groups of letters, as Bojanowski et al. (2017) take them, did no better in trials and
# are four times as many.


BEGINNINGS = (3, 4, 5, 6)
ENDINGS = (2, 3, 4)
MOST = len(BEGINNINGS) + len(ENDINGS)

NO_GROUP = 0  # a row that stays zero


def letter_groups(word: str) -> list[str]:
    """The beginnings and endings of a word, marked as such.

    >>> letter_groups("river")
    ['<riv', '<rive', '<river', 'er>', 'ver>', 'iver>']
    >>> letter_groups("a")
    []
    """
    begins = [f"<{word[:size]}" for size in BEGINNINGS if len(word) >= size]
    return begins + [f"{word[-size:]}>" for size in ENDINGS if len(word) > size]


class WordSpelling(nn.Module):
    """From token numbers to vectors of their spelling; `rows` of the table are shared by hashing."""

    numbers: Tensor
    shares: Tensor

    def __init__(self, *, vocabulary: int, model_dim: int, rows: int, spread: float) -> None:
        super().__init__()
        require_positive("WordSpelling", vocabulary=vocabulary, model_dim=model_dim)
        if rows < 2:
            raise RegardError(f"model.spelling_table={rows}: it must be 0, for none, or 2 or more.")
        self.table = nn.Embedding(rows, model_dim, padding_idx=NO_GROUP)
        nn.init.normal_(self.table.weight, std=spread)
        with torch.no_grad():
            self.table.weight[NO_GROUP] = 0
        # Not saved: the vocabulary beside the weights tells them.
        nothing = torch.full((vocabulary, MOST), NO_GROUP)
        self.register_buffer("numbers", nothing, persistent=False)
        self.register_buffer("shares", torch.zeros(vocabulary, 1), persistent=False)
        self.spelled = False

    def spell(self, words: Sequence[str]) -> None:
        """Learn how the words are spelled; the first has the number after the special tokens."""
        first, vocabulary = len(SPECIAL_TOKENS), len(self.numbers)
        if first + len(words) != vocabulary:
            raise RegardError(
                f"{len(words)} words were given to a model of {vocabulary - first}. Give those of the "
                "vocabulary that numbers its tokens, in order."
            )
        for number, word in enumerate(words, start=first):
            rows = [self._row(group) for group in letter_groups(word.lower())]
            self.numbers[number, : len(rows)] = torch.tensor(rows, dtype=torch.long)
            self.shares[number] = 1 / len(rows) if rows else 0.0
        self.spelled = True

    def forward(
        self, tokens: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        if not self.spelled:
            raise RegardError(
                "The model reads spellings and was not told them: call spell(words) with the words of "
                "the vocabulary first."
            )
        groups: Tensor = self.table(self.numbers[tokens])
        return groups.sum(dim=-2) * self.shares[tokens]

    def _row(self, group: str) -> int:
        """Never that of `NO_GROUP`."""
        return 1 + zlib.crc32(group.encode()) % (self.table.num_embeddings - 1)

    def cost(self, *, rows: int) -> Cost:
        """Of so many words: a sum over all groups and a product with their share."""
        numbers = rows * self.table.embedding_dim
        return Cost(
            arithmetic=(MOST + 1) * numbers,
            memory=(MOST + 2) * numbers,
            parameters=self.table.weight.numel(),
        )


# Words as vectors, as classifiers of texts read them: a table, and others for neighbours and
# spelling.
#
# vector of word t  =  E[wₜ] + N[hash(wₜ, wₜ₊₁)] + how wₜ is spelled
#
# A pair such as "not good" gets a vector of its own, which a sum of two word vectors cannot be
# (Wang and Manning 2012; hashed as by Joulin et al. 2017, so that no list of pairs is kept). The
# last word of a text, or of a sentence where sentences are told, has no next one and so no pair.
# Spelling is in `word_spelling.py`. While training, some words are read as unknown and some
# features left out.


START_SPREAD = 0.1
# An odd multiplier and a prime below 2³¹ spread pairs of numbers over the table.
MULTIPLIER, PRIME = 1_000_003, 2_147_483_647

# Of every pair: its number, and whether both words are of one text; or of one sentence too.
PAIR_ARITHMETIC = 6
SENTENCE_ARITHMETIC = 2


class WordVectors(nn.Module):
    """From token numbers to vectors.

    pair_table      rows of the table for pairs of neighbours; 0 for none
    spelling_table  rows of the table for beginnings and endings of words; 0 for none. The model must be
                    told the words then, by `spell`.
    dropout         of features; `word_dropout` of whole words, which are then read as unknown
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        model_dim: int,
        pair_table: int = 0,
        spelling_table: int = 0,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_positive("WordVectors", vocabulary=vocabulary)
        require_sizes(model_dim=model_dim)
        require_sizes_or_none(pair_table=pair_table)
        require_shares(word_dropout=word_dropout)
        self.embedding = TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim, scaled=False)
        nn.init.normal_(self.embedding.table.weight, std=START_SPREAD)
        self.pairs = None
        if pair_table:
            self.pairs = nn.Embedding(pair_table, model_dim)
            # Most pairs are rare: they begin with next to no say.
            nn.init.normal_(self.pairs.weight, std=START_SPREAD / 5)
        self.spelling = (
            WordSpelling(
                vocabulary=vocabulary, model_dim=model_dim, rows=spelling_table, spread=START_SPREAD
            )
            if spelling_table
            else None
        )
        self.dropout = Dropout(dropout)
        self.word_dropout = word_dropout

    def spell(self, words: Sequence[str]) -> None:
        """Tell the words of the vocabulary, the special ones left out, where spelling is read."""
        if self.spelling is not None:
            self.spelling.spell(words)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length model_dim"]:
        """The vectors of padded texts; with `segments`, words of two sentences are no pair."""
        if self.training and self.word_dropout:
            left_out = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(left_out & (tokens != PAD), UNKNOWN)
        vectors: Tensor = self.embedding(tokens)
        if self.pairs is not None:
            vectors = vectors + self._pair_vectors(self.pairs, tokens, lengths, segments)
        if self.spelling is not None:
            vectors = vectors + self.spelling(tokens)
        out: Tensor = self.dropout(vectors)
        return out

    def _pair_vectors(
        self, pairs: nn.Embedding, tokens: Tensor, lengths: Tensor, segments: Tensor | None
    ) -> Tensor:
        """The vector of each word with the next; zeros where there is none."""
        joined = (tokens[:, :-1] * MULTIPLIER + tokens[:, 1:]) * MULTIPLIER % PRIME
        vectors = pairs(joined % pairs.num_embeddings)
        places = torch.arange(1, tokens.shape[1], device=tokens.device)
        paired = places < lengths[:, None]
        if segments is not None:
            paired = paired & (segments[:, 1:] == segments[:, :-1])
        return nn.functional.pad(vectors * paired[:, :, None], (0, 0, 0, 1))

    def cost(self, *, rows: int, texts: int, sentences: bool = False) -> Cost:
        """Of so many words in so many texts: looking up is no product, a sum is one addition a number.

        `sentences` says whether pairs are kept within them.
        """
        numbers = rows * self.embedding.table.embedding_dim
        total = self.embedding.cost(rows=rows)
        if self.pairs is not None:
            total += Cost(
                arithmetic=numbers + self._pair_arithmetic(rows - texts, sentences=sentences),
                memory=2 * numbers,
                parameters=self.pairs.weight.numel(),
            )
        if self.spelling is not None:
            total += self.spelling.cost(rows=rows) + Cost(arithmetic=numbers, memory=numbers)
        return total

    def _pair_arithmetic(self, pairs: int, *, sentences: bool) -> int:
        of_pair = PAIR_ARITHMETIC + (SENTENCE_ARITHMETIC if sentences else 0)
        return pairs * (self.embedding.table.embedding_dim + of_pair)
