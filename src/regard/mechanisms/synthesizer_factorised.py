"""Factorised random synthesizer: the position scores as a product of two thin matrices.

The random synthesizer with max_length·2·rank parameters a head instead of max_length² (Tay et al. 2021).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.mechanism import Role
from regard.mechanisms.positional_scores import KeylessMechanism


class FactorisedSynthesizer(KeylessMechanism):
    """score of (i, j) = R₁[i] · R₂[j]   (Tay et al. 2021, sec. 3, "factorized random")."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self"})

    def __init__(self, *, rank: int = 8, num_heads: int = 1, max_length: int = 512) -> None:
        super().__init__(max_length=max_length)
        self.num_heads = num_heads
        # The product of two such numbers summed over the rank has unit variance, as in the full table.
        self.row_factors = nn.Parameter(torch.randn(num_heads, max_length, rank) * rank**-0.25)
        self.column_factors = nn.Parameter(torch.randn(num_heads, max_length, rank) * rank**-0.25)

    def scores(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length 0"],
        *,
        query_positions: Int[Tensor, "_rows query_length"],
        key_positions: Int[Tensor, "_rows key_length"],
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        rows = self.row_factors[:, query_positions.clamp(min=0)].transpose(0, 1)
        columns = self.column_factors[:, key_positions.clamp(min=0)].transpose(0, 1)
        return (rows @ columns.transpose(-2, -1)).expand(query.shape[0], query.shape[1], -1, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        # The scores of one head serve every example of the batch.
        heads, _, rank = self.row_factors.shape
        products = 2 * heads * shape.pairs * rank
        return Cost(
            products=products,
            arithmetic=shape.query_length + shape.key_length,  # positions, kept from being negative
            backward_products=2 * products,
            # While decoding, every example stands at a position of its own.
            step_products=2 * shape.batch_size * heads * (shape.key_length + 1) * rank,
            memory=heads * shape.pairs,
            parameters=self.num_parameters,
        )
