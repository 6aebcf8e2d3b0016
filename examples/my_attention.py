"""Cosine attention: scores are cosines, sharpened by a temperature that each head learns.

    score = exp(log_temperature) · q·k / (‖q‖ ‖k‖)          (Liu et al. 2022, Swin V2, eq. 2)

Unlike scaled dot, the score of a pair does not grow with the length of its vectors.

    regard check examples/my_attention.py:CosineAttention
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.mechanisms.scores.softmax import ScoredMechanism


class CosineAttention(ScoredMechanism):
    """Softmax over temperature × cosine of query and key; one temperature a head."""

    def __init__(self, *, num_heads: int = 1, temperature: float = 10.0) -> None:
        super().__init__()
        start = math.log(temperature)
        self.log_temperature = nn.Parameter(torch.full((num_heads, 1, 1), start))

    def remember(self, key: Tensor) -> Tensor:
        return nn.functional.normalize(key, dim=-1)

    def scores(
        self, query: Tensor, remembered: Tensor, *, query_positions: Tensor, key_positions: Tensor
    ) -> Tensor:
        direction = nn.functional.normalize(query, dim=-1)
        return (direction * self.log_temperature.exp()) @ remembered.transpose(-2, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        pairs = shape.rows * shape.pairs
        # Normalising divides every number of the queries, and of the keys before heads share them.
        queries = shape.rows * shape.query_length
        vectors = queries + shape.kv_rows * shape.key_length
        products = 2 * pairs * shape.key_dim
        return Cost(
            products=products,
            functions=vectors * shape.key_dim + self.log_temperature.numel(),  # an exp a head
            # A sum of squares a vector, kept from being zero; and queries take the temperature.
            arithmetic=vectors * (shape.key_dim + 1) + queries * shape.key_dim,
            backward_products=2 * products,  # the gradients of both factors
            # One query, and its own key beside those before.
            step_products=2 * shape.rows * (shape.key_length + 1) * shape.key_dim,
            memory=2 * pairs,  # the scores before and after masking
            parameters=self.num_parameters,
            sequential_steps=1,
        )
