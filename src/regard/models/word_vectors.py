"""Words as vectors, as classifiers of texts read them: a table, and a second one for neighbouring words.

    vector of word t  =  E[wₜ] + N[hash(wₜ, wₜ₊₁)]

A pair such as "not good" gets a vector of its own, which a sum of two word vectors cannot be (Wang and
Manning 2012; hashed as by Joulin et al. 2017, so that no list of pairs is kept). While training, some
words are read as unknown and some features left out.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.special_tokens import PAD, UNKNOWN
from regard.layers.dropout import Dropout
from regard.layers.size_rules import require_dropout, require_positive
from regard.models.token_embedding import TokenEmbedding

START_SPREAD = 0.1
# An odd multiplier and a prime below 2³¹ spread pairs of numbers over the table.
MULTIPLIER, PRIME = 1_000_003, 2_147_483_647

# Of every word: its pair's number, and whether there is a pair.
PAIR_ARITHMETIC = 6


class WordVectors(nn.Module):
    """From token numbers to vectors.

    pair_table      rows of the table for pairs of neighbours; 0 for none
    dropout         of features; `word_dropout` of whole words, which are then read as unknown
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        model_dim: int,
        pair_table: int = 0,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_positive("WordVectors", vocabulary=vocabulary, model_dim=model_dim)
        require_dropout("WordVectors", word_dropout)
        self.embedding = TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim, scaled=False)
        nn.init.normal_(self.embedding.table.weight, std=START_SPREAD)
        self.pairs = None
        if pair_table:
            require_positive("WordVectors", pair_table=pair_table)
            self.pairs = nn.Embedding(pair_table, model_dim)
            # Most pairs are rare: they begin with next to no say.
            nn.init.normal_(self.pairs.weight, std=START_SPREAD / 5)
        self.dropout = Dropout(dropout)
        self.word_dropout = word_dropout

    def forward(
        self, tokens: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        if self.training and self.word_dropout:
            left_out = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(left_out & (tokens != PAD), UNKNOWN)
        vectors: Tensor = self.embedding(tokens)
        if self.pairs is not None:
            vectors = vectors + self._pair_vectors(tokens, self.pairs)
        out: Tensor = self.dropout(vectors)
        return out

    def _pair_vectors(self, tokens: Tensor, pairs: nn.Embedding) -> Tensor:
        """The vector of each word with the next; the last of a row has none, nor has padding."""
        joined = (tokens[:, :-1] * MULTIPLIER + tokens[:, 1:]) * MULTIPLIER % PRIME
        vectors = pairs(joined % pairs.num_embeddings)
        real = (tokens[:, 1:] != PAD)[:, :, None]
        return nn.functional.pad(vectors * real, (0, 0, 0, 1))

    def cost(self, *, rows: int, texts: int) -> Cost:
        """Of so many words in so many texts: looking up is no product, a sum is one addition a number."""
        numbers = rows * self.embedding.table.embedding_dim
        total = self.embedding.cost(rows=rows)
        if self.pairs is None:
            return total
        return total + Cost(
            arithmetic=numbers + self._pair_arithmetic(rows - texts),
            memory=2 * numbers,
            parameters=self.pairs.weight.numel(),
        )

    def _pair_arithmetic(self, pairs: int) -> int:
        return pairs * (self.embedding.table.embedding_dim + PAIR_ARITHMETIC)
