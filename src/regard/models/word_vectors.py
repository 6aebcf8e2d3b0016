"""Words as vectors, as classifiers of texts read them: a table, and others for neighbours and spelling.

    vector of word t  =  E[wₜ] + N[hash(wₜ, wₜ₊₁)] + how wₜ is spelled

A pair such as "not good" gets a vector of its own, which a sum of two word vectors cannot be (Wang and
Manning 2012; hashed as by Joulin et al. 2017, so that no list of pairs is kept). The last word of a text,
or of a sentence where sentences are told, has no next one and so no pair. Spelling is in
`word_spelling.py`. While training, some words are read as unknown and some features left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.special_tokens import PAD, UNKNOWN
from regard.layers.dropout import Dropout
from regard.layers.size_rules import require_positive
from regard.models.option_rules import require_shares, require_sizes, require_sizes_or_none
from regard.models.token_embedding import TokenEmbedding
from regard.models.word_spelling import WordSpelling

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
