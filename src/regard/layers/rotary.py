"""Rotary position embedding (RoPE; Su et al. 2021): queries and keys are rotated by their position.

    pair i at position t is rotated by t·ωᵢ,  ωᵢ = base^(−2i/head_dim)

Nothing is added to the embeddings. The dot product of a rotated query and a rotated key depends on the
distance of their positions only. The rotation precedes the mechanism, so it works with all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.options import PositiveFloat, validated
from regard.layers.positions import EvenInt, angles


class Rotation(NamedTuple):
    """Cosine and sine of every pair at every position, computed once for queries and keys."""

    cosine: Float[Tensor, "*batch length pairs"]
    sine: Float[Tensor, "*batch length pairs"]


class Rotary(nn.Module):
    """Rotates the pairs of features (0, 1), (2, 3), … of each head."""

    @validated
    def __init__(self, *, head_dim: EvenInt, base: PositiveFloat = 10_000.0) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.base = base

    def rotation(
        self, positions: Int[Tensor, " length"] | Int[Tensor, "batch length"], dtype: torch.dtype
    ) -> Rotation:
        """The rotation for these positions, which may differ between examples."""
        turned = self.angles(positions)
        if positions.dim() == 2:
            turned = turned[:, None]  # the same for all heads of an example
        return Rotation(cosine=turned.cos().to(dtype), sine=turned.sin().to(dtype))

    def angles(
        self, positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "*batch length pairs"]:
        """The angle of each pair at these positions."""
        return angles(positions, width=self.head_dim, base=self.base)

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_dim"], rotation: Rotation
    ) -> Float[Tensor, "batch heads length head_dim"]:
        """The heads with each pair rotated, which preserves norms."""
        first, second = heads[..., 0::2], heads[..., 1::2]
        cosine, sine = rotation
        rotated = (first * cosine - second * sine, second * cosine + first * sine)
        return torch.stack(rotated, dim=-1).flatten(-2)

    def forward(
        self,
        heads: Float[Tensor, "batch heads length head_dim"],
        positions: Int[Tensor, " length"] | Int[Tensor, "batch length"],
    ) -> Float[Tensor, "batch heads length head_dim"]:
        return self.rotate(heads, self.rotation(positions, heads.dtype))
