"""Random synthesizer: one learned score for every pair of positions (Tay et al. 2021).

Nothing of the input reaches the weights, neither query nor key; only the values differ.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.mechanism import Role
from regard.mechanisms.positional_scores import KeylessMechanism


class RandomSynthesizer(KeylessMechanism):
    """score of (i, j) = R[i, j], learned from a random start   (Tay et al. 2021, sec. 3)."""

    roles: ClassVar[frozenset[Role]] = frozenset({"self"})

    def __init__(self, *, num_heads: int = 1, max_length: int = 512) -> None:
        super().__init__(max_length=max_length)
        self.num_heads = num_heads
        self.table = nn.Parameter(torch.randn(num_heads, max_length, max_length))

    def scores(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length 0"],
        *,
        query_positions: Int[Tensor, "_rows query_length"],
        key_positions: Int[Tensor, "_rows key_length"],
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        rows, columns = query_positions.clamp(min=0), key_positions.clamp(min=0)
        picked = self.table[:, rows[:, :, None], columns[:, None, :]].transpose(0, 1)
        return picked.expand(query.shape[0], query.shape[1], -1, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        # The scores of one head serve every example of the batch.
        return Cost(
            arithmetic=shape.query_length + shape.key_length,  # positions, kept from being negative
            memory=len(self.table) * shape.pairs,
            parameters=self.num_parameters,
        )
