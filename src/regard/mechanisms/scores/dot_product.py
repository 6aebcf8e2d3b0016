"""Dot attention: score = q·k, the score of Luong et al. 2015 that has nothing to learn.

Unlike scaled dot, the scores grow with the width: at d = 64 random unit-variance vectors score ±8, and
the softmax is nearly one-hot.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import Window
from regard.mechanisms.scores.fused import FusedMechanism


class DotAttention(FusedMechanism):
    """score = query · key   (Luong et al. 2015, sec. 3.1, "dot")."""

    def scale(self, key_dim: int) -> float:
        del key_dim
        return 1.0


# Scaled dot attention: score = q·k/√d, the Transformer's (Vaswani et al. 2017).
#
# The scale keeps the scores' variance at one whatever the width; otherwise it is dot attention.


class ScaledDotAttention(FusedMechanism):
    """score = query · key / √key_dim   (Vaswani et al. 2017, eq. 1)."""

    def scale(self, key_dim: int) -> float:
        return float(key_dim**-0.5)


# Multiplying each head by a matrix of its own, or all heads by one.


def head_product(
    x: Float[Tensor, "batch heads length width"], weight: Float[Tensor, "_heads width out_width"]
) -> Float[Tensor, "batch heads length out_width"]:
    """x @ weight, where `weight` has a matrix a head or one for all.

    One for all is a single product of all rows. Broadcast, it would be one product for each example, and
    its gradient one matrix for each example, added up.
    """
    return x @ (weight[0] if len(weight) == 1 else weight)


# General (bilinear) attention: score = qᵀ W k (Luong et al. 2015).
#
# W lets query and key differ in width, and costs one product per query; after that it is dot
# attention.


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


# Local window attention: scaled dot over the keys at most r positions away, in O(r·n·d).
#
# The same numbers as scaled dot under `Window(r)`, as a mechanism of its own so that a model can
# ask for it by name; its decoding state is the last r + 1 tokens instead of all of them.


class WindowAttention(ScaledDotAttention):
    """score = query · key / √key_dim within `radius`   (Beltagy et al. 2020, sliding window)."""

    def __init__(self, *, radius: int = 64) -> None:
        super().__init__()
        self.sight = Window(radius)
