"""Rotary positions: queries and keys are turned by angles that grow with their position.

    pair i at position t is turned by t·ωᵢ,  ωᵢ = base^(−2i/head_dim)

(Su et al. 2021). Nothing is added to the tokens. The product of a turned query and a turned key
depends on positions through their distance only; it happens before the mechanism, so any takes it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.layers.cost import SequenceShape, require_shape
from regard.layers.positions import angle_arithmetic, angles, require_pairs


class Rotation(NamedTuple):
    """The turn of every pair at every position, made once for queries and keys."""

    cosine: Float[Tensor, "*batch length pairs"]
    sine: Float[Tensor, "*batch length pairs"]


class Rotary(nn.Module):
    """Turns neighbouring features (0, 1), (2, 3), … of each head."""

    def __init__(self, *, head_dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        require_pairs("Rotary positions", head_dim)
        self.head_dim = head_dim
        self.base = base

    def rotation(
        self, positions: Int[Tensor, " length"] | Int[Tensor, "batch length"], dtype: torch.dtype
    ) -> Rotation:
        """The turns for tokens at these positions, which may differ between examples."""
        turned = angles(positions, width=self.head_dim, base=self.base)
        if positions.dim() == 2:
            turned = turned[:, None]  # the same for all heads of an example
        return Rotation(cosine=turned.cos().to(dtype), sine=turned.sin().to(dtype))

    def turn(
        self, heads: Float[Tensor, "batch heads length head_dim"], rotation: Rotation
    ) -> Float[Tensor, "batch heads length head_dim"]:
        """The heads, each pair turned; lengths and products with equally placed heads are kept."""
        first, second = heads[..., 0::2], heads[..., 1::2]
        cosine, sine = rotation
        turned = (first * cosine - second * sine, second * cosine + first * sine)
        return torch.stack(turned, dim=-1).flatten(-2)

    def forward(
        self,
        heads: Float[Tensor, "batch heads length head_dim"],
        positions: Int[Tensor, " length"] | Int[Tensor, "batch length"],
    ) -> Float[Tensor, "batch heads length head_dim"]:
        return self.turn(heads, self.rotation(positions, heads.dtype))

    def cost(self, shape: SequenceShape) -> Cost:
        """What one rotation takes, shared by the queries and keys of all examples and heads."""
        require_shape("Rotary", shape)
        return Cost(
            functions=shape.length * self.head_dim,
            arithmetic=angle_arithmetic(length=shape.length, width=self.head_dim),
            memory=2 * shape.length * self.head_dim,
        )

    def turn_cost(self, *, numbers: int) -> Cost:
        """What turning heads of so many numbers takes: four products and two sums a pair."""
        return Cost(arithmetic=3 * numbers)
