"""Dense synthesizer: each query's own two-layer network writes its row of weights (Tay et al. 2021).

Location attention with a hidden layer: keys are not seen, and the number of positions is bounded.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.mechanisms.positional_scores import KeylessMechanism, pick_columns, picked_in_step


class DenseSynthesizer(KeylessMechanism):
    """score of position j = (W₂ relu(W₁ query + b₁) + b₂)_j   (Tay et al. 2021, sec. 3)."""

    def __init__(
        self,
        *,
        query_dim: int,
        hidden_dim: int | None = None,
        num_heads: int = 1,
        max_length: int = 512,
    ) -> None:
        super().__init__(max_length=max_length)
        self.num_heads = num_heads
        hidden_dim = query_dim if hidden_dim is None else hidden_dim
        if hidden_dim < 1:
            raise RegardError(f"{self.name} has hidden_dim={hidden_dim}; it must be 1 or more.")
        self.hidden_weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.hidden_bias = nn.Parameter(torch.zeros(num_heads, 1, hidden_dim))
        self.output_weight = nn.Parameter(torch.empty(num_heads, hidden_dim, max_length))
        self.output_bias = nn.Parameter(torch.zeros(num_heads, 1, max_length))
        nn.init.normal_(self.hidden_weight, std=query_dim**-0.5)
        nn.init.normal_(self.output_weight, std=hidden_dim**-0.5)

    def scores(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length 0"],
        *,
        query_positions: Int[Tensor, "_rows query_length"],
        key_positions: Int[Tensor, "_rows key_length"],
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        del remembered, query_positions
        hidden = torch.relu(query @ self.hidden_weight + self.hidden_bias)
        bias = self.output_bias.transpose(0, 1)[:, :, key_positions.clamp(min=0)]
        return pick_columns(hidden, self.output_weight, key_positions) + bias.permute(2, 1, 0, 3)

    def score_cost(self, shape: AttentionShape) -> Cost:
        _, query_dim, hidden_dim = self.hidden_weight.shape
        queries, pairs = shape.rows * shape.query_length, shape.rows * shape.pairs
        products = 2 * queries * hidden_dim * (query_dim + shape.key_length)
        picked = picked_in_step(shape, self.max_length)
        return Cost(
            products=products,
            # Both biases and the relu; and the positions, twice kept from being negative.
            arithmetic=2 * queries * hidden_dim + pairs + 2 * shape.key_length,
            backward_products=2 * products,
            step_products=2 * shape.rows * hidden_dim * (query_dim + picked),
            memory=pairs,
            parameters=self.num_parameters,
        )
