"""Token embedding: a learned vector for every token, which may also score the tokens to come.

    embed    √model_dim · E[token]
    logits   hidden · Eᵀ                 (Press and Wolf 2017; Vaswani et al. 2017, section 3.4)

Vectors start with length about 1, so that logits do too, and are scaled up where they are read. Not
scaled, they start as small as BERT's (Devlin et al. 2019), for sums that a layer norm follows.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost, linear_cost
from regard.core.errors import RegardError
from regard.layers.size_rules import require_positive

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
