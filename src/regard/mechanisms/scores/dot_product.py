"""Dot-product attention: dot, scaled dot, general (bilinear) and sliding window.

dot         q·k          no parameters; scores grow with the width (±8 for random vectors at d = 64)
scaled_dot  q·k/√d       scores of unit variance at any width; the Transformer's
general     qᵀWk         query and key may differ in width; one more product per query
window      q·k/√d       over the keys at most r positions away, in O(r·n·d)
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import Window
from regard.core.mechanism import Query
from regard.core.options import NonNegativeInt, PositiveInt, validated
from regard.mechanisms.scores.fused import FusedMechanism


class DotAttention(FusedMechanism):
    """score = query · key   (Luong et al. 2015, sec. 3.1, "dot")."""

    def scale(self, key_dim: int) -> float:
        return 1.0


class ScaledDotAttention(FusedMechanism):
    """score = query · key / √key_dim   (Vaswani et al. 2017, eq. 1)."""

    def scale(self, key_dim: int) -> float:
        return float(key_dim**-0.5)


def head_product(
    x: Float[Tensor, "batch heads length width"], weight: Float[Tensor, "_heads width out_width"]
) -> Float[Tensor, "batch heads length out_width"]:
    """x @ weight, where `weight` has one matrix per head or one for all heads.

    One for all is a single matrix product; broadcasting would do one per example, also in backward.
    """
    return x @ (weight[0] if len(weight) == 1 else weight)


class GeneralAttention(FusedMechanism):
    """score = queryᵀ W key   (Luong et al. 2015, sec. 3.1, "general"); one W per head, or one for all."""

    @validated
    def __init__(
        self, *, query_dim: PositiveInt, key_dim: PositiveInt, num_heads: PositiveInt = 1
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.bilinear = nn.Parameter(torch.empty(num_heads, query_dim, key_dim))
        # Scores of unit-variance queries and keys then have unit variance.
        nn.init.normal_(self.bilinear, std=(query_dim * key_dim) ** -0.5)

    def prepare(self, query: Query) -> Float[Tensor, "batch heads query_length key_dim"]:
        return head_product(query, self.bilinear)

    def scale(self, key_dim: int) -> float:
        return 1.0

    def score_cost(self, shape: AttentionShape) -> Cost:
        _, query_dim, key_dim = self.bilinear.shape
        rows = shape.batch_heads * shape.query_length
        matmul_flops = 2 * rows * query_dim * key_dim
        return Cost(
            matmul_flops=matmul_flops,
            backward_matmul_flops=2 * matmul_flops,
            step_matmul_flops=2 * shape.batch_heads * query_dim * key_dim,
            memory=rows * key_dim,
            parameters=self.num_parameters,
            sequential_steps=1,
        )


class WindowAttention(ScaledDotAttention):
    """score = query · key / √key_dim within `radius`   (Beltagy et al. 2020, sliding window).

    Equals scaled dot with the mask `Window(radius)`; its KV cache holds the last radius + 1 tokens.
    """

    @validated
    def __init__(self, *, radius: NonNegativeInt = 64) -> None:
        super().__init__()
        self.window = Window(radius)
