"""General (bilinear) attention: score = qᵀ W k (Luong et al. 2015).

W lets query and key differ in width, and costs one product per query; after that it is dot attention.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.mechanisms.fused import FusedMechanism
from regard.mechanisms.head_product import head_product


class GeneralAttention(FusedMechanism):
    """score = queryᵀ W key   (Luong et al. 2015, sec. 3.1, "general"); one W a head, or one for all."""

    def __init__(self, *, query_dim: int, key_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.bilinear = nn.Parameter(torch.empty(num_heads, query_dim, key_dim))
        # Unit-variance queries and keys then score with unit variance.
        nn.init.normal_(self.bilinear, std=(query_dim * key_dim) ** -0.5)

    def prepare(
        self, query: Float[Tensor, "batch heads query_length query_dim"]
    ) -> Float[Tensor, "batch heads query_length key_dim"]:
        return head_product(query, self.bilinear)

    def scale(self, key_dim: int) -> float:
        del key_dim
        return 1.0

    def score_cost(self, shape: AttentionShape) -> Cost:
        _, query_dim, key_dim = self.bilinear.shape
        rows = shape.rows * shape.query_length
        products = 2 * rows * query_dim * key_dim
        return Cost(
            products=products,
            backward_products=2 * products,
            step_products=2 * shape.rows * query_dim * key_dim,
            memory=rows * key_dim,
            parameters=self.num_parameters,
            sequential_steps=1,
        )
