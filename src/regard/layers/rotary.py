"""Rotary positions: queries and keys are turned by angles that grow with their position.

    pair i at position t is turned by t·ωᵢ,  ωᵢ = base^(−2i/head_dim)

(Su et al. 2021). Nothing is added to the tokens. The product of a turned query and a turned key
depends on positions through their distance only; it happens before the mechanism, so any takes it.
"""

from __future__ import annotations

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.layers.angles import angle_arithmetic, angles, require_pairs
from regard.layers.layer_cost import SequenceShape, require_shape


class Rotary(nn.Module):
    """Turns neighbouring features (0, 1), (2, 3), … of each head."""

    def __init__(self, *, head_dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        require_pairs("Rotary positions", head_dim)
        self.head_dim = head_dim
        self.base = base

    def rotation(
        self, positions: Int[Tensor, " length"] | Int[Tensor, "batch length"], dtype: torch.dtype
    ) -> Complex[Tensor, "*batch length pairs"]:
        """The turns for tokens at these positions, which may differ between examples.

        Each is cos + i·sin of its angle, made once for queries and keys.
        """
        turned = angles(positions, width=self.head_dim, base=self.base)
        if positions.dim() == 2:
            turned = turned[:, None]  # the same for all heads of an example
        dtype = _complex_part(dtype)
        return torch.complex(turned.cos().to(dtype), turned.sin().to(dtype))

    def turn(
        self,
        heads: Float[Tensor, "batch heads length head_dim"],
        rotation: Complex[Tensor, "*batch length pairs"],
    ) -> Float[Tensor, "batch heads length head_dim"]:
        """The heads, each pair turned; lengths and products with equally placed heads are kept."""
        # A pair as one complex number: one product that reads and writes everything once.
        pairs = heads.to(_complex_part(heads.dtype)).unflatten(-1, (-1, 2))
        if not _is_complex_view(pairs):
            pairs = pairs.clone(memory_format=torch.contiguous_format)
        turned = torch.view_as_real(torch.view_as_complex(pairs) * rotation)
        return turned.flatten(-2).to(heads.dtype)

    def forward(
        self,
        heads: Float[Tensor, "batch heads length head_dim"],
        positions: Int[Tensor, " length"] | Int[Tensor, "batch length"],
    ) -> Float[Tensor, "batch heads length head_dim"]:
        return self.turn(heads, self.rotation(positions, heads.dtype))

    def cost(self, shape: SequenceShape) -> Cost:
        """What one rotation takes, shared by the queries and keys of all examples and heads."""
        require_shape("Rotary", shape)
        made_and_turned = angle_arithmetic(length=shape.length, width=self.head_dim)
        return Cost(
            functions=shape.length * self.head_dim,
            arithmetic=made_and_turned - shape.length,  # the positions are given
            memory=2 * shape.length * self.head_dim,
        )

    def turn_cost(self, *, numbers: int) -> Cost:
        """What turning heads of so many numbers takes: one complex product a pair."""
        return Cost(arithmetic=numbers // 2)


def _complex_part(dtype: torch.dtype) -> torch.dtype:
    """The type of a complex number's parts: half as wide ones are not multiplied on every device."""
    return torch.promote_types(dtype, torch.float32)


def _is_complex_view(pairs: Float[Tensor, "*rows pairs 2"]) -> bool:
    """Whether every pair lies together, where a complex number may begin."""
    *steps, together = pairs.stride()
    begins = (pairs.storage_offset(), *steps)
    return together == 1 and all(place % 2 == 0 for place in begins)
