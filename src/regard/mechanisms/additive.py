"""Additive attention: score = vᵀ tanh(W_q q + W_k k), the first of them (Bahdanau et al. 2015).

A small network instead of a product, so query and key may differ in width, at the price of a tanh for
every pair and hidden unit. Keys are projected once and remembered projected.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.mechanism import repeat_heads
from regard.mechanisms.additive_scores import STEP_ENTRIES, additive_scores
from regard.mechanisms.head_product import head_product
from regard.mechanisms.scored import ScoredMechanism


class AdditiveAttention(ScoredMechanism):
    """score = vᵀ tanh(W_q query + W_k key)   (Bahdanau et al. 2015, app. A.1.2); "concat" in Luong's.

    `hidden_dim` is the key's width unless given. Parameters are one set a head, or one for all heads.
    """

    def __init__(
        self, *, query_dim: int, key_dim: int, hidden_dim: int | None = None, num_heads: int = 1
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        hidden_dim = key_dim if hidden_dim is None else hidden_dim
        if hidden_dim < 1:
            raise RegardError(f"{self.name} has hidden_dim={hidden_dim}; it must be 1 or more.")
        self.query_weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.key_weight = nn.Parameter(torch.empty(num_heads, key_dim, hidden_dim))
        self.score_vector = nn.Parameter(torch.empty(num_heads, hidden_dim))
        nn.init.normal_(self.query_weight, std=query_dim**-0.5)
        nn.init.normal_(self.key_weight, std=key_dim**-0.5)
        nn.init.normal_(self.score_vector, std=hidden_dim**-0.5)

    def remember(
        self, key: Float[Tensor, "batch kv_heads key_length key_dim"]
    ) -> Float[Tensor, "batch kept_heads key_length hidden_dim"]:
        # Heads with weights of their own project a shared key differently, so it is repeated first.
        heads = max(len(self.key_weight), key.shape[1])
        return head_product(repeat_heads(key, heads), self.key_weight)

    def scores(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length hidden_dim"],
        *,
        query_positions: Int[Tensor, "_rows query_length"],
        key_positions: Int[Tensor, "_rows key_length"],
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        del query_positions, key_positions
        projected = head_product(query, self.query_weight)
        return additive_scores(projected, remembered, self.score_vector)

    def remembered_numbers(self, shape: AttentionShape) -> int:
        return self._kept_rows(shape) * shape.key_length * self.score_vector.shape[1]

    def _kept_rows(self, shape: AttentionShape) -> int:
        return max(shape.kv_rows, shape.batch_size * len(self.key_weight))

    def score_cost(self, shape: AttentionShape) -> Cost:
        _, query_dim, hidden_dim = self.query_weight.shape
        queries = shape.rows * shape.query_length
        keys, kept = shape.rows * shape.key_length, self._kept_rows(shape) * shape.key_length
        pairs = shape.rows * shape.pairs
        working = min(STEP_ENTRIES, pairs * hidden_dim)
        projected = 2 * hidden_dim * (queries * query_dim + kept * shape.key_dim)
        one_token = shape.rows * query_dim + self._kept_rows(shape) * shape.key_dim
        return Cost(
            products=projected + 2 * hidden_dim * pairs,
            # An exponential a position and a division a pair; see additive_scores.
            functions=hidden_dim * (queries + keys + pairs),
            # Absolute value, maximum and doubling a position, 3 operations a pair, the vector doubled;
            # and queries and keys each compared with the number range.
            arithmetic=hidden_dim * (3 * (queries + keys + pairs) + shape.rows) + 2,
            # Of the scores only the vector's gradient is a product.
            backward_products=2 * projected + 2 * hidden_dim * pairs,
            step_products=2 * hidden_dim * (one_token + shape.rows * (shape.key_length + 1)),
            memory=pairs + 2 * hidden_dim * (queries + keys) + working,
            parameters=self.num_parameters,
            sequential_steps=2,
        )
