"""Location attention: weights = softmax(W q), from the query alone (Luong et al. 2015).

It learns *where* to look and never sees the keys, so it weighs a fixed number of positions.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.mechanisms.positional_scores import KeylessMechanism, pick_columns, picked_in_step


class LocationAttention(KeylessMechanism):
    """score of position j = (W query)_j   (Luong et al. 2015, sec. 3.1, "location")."""

    def __init__(self, *, query_dim: int, num_heads: int = 1, max_length: int = 512) -> None:
        super().__init__(max_length=max_length)
        self.num_heads = num_heads
        self.projection = nn.Parameter(torch.empty(num_heads, query_dim, max_length))
        nn.init.normal_(self.projection, std=query_dim**-0.5)

    def scores(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length 0"],
        *,
        query_positions: Int[Tensor, "_rows query_length"],
        key_positions: Int[Tensor, "rows key_length"],
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        del remembered, query_positions
        return pick_columns(query, self.projection, key_positions)

    def score_cost(self, shape: AttentionShape) -> Cost:
        pairs, query_dim = shape.rows * shape.pairs, self.projection.shape[1]
        products = 2 * pairs * query_dim
        picked = picked_in_step(shape, self.max_length)
        return Cost(
            products=products,
            arithmetic=shape.key_length,  # positions, kept from being negative
            backward_products=2 * products,
            step_products=2 * shape.rows * picked * query_dim,
            memory=pairs,
            parameters=self.num_parameters,
        )
