"""Sinusoidal positions: a fixed vector of sines and cosines is added to every token.

    PE(t) = (sin ω₀t, cos ω₀t, sin ω₁t, cos ω₁t, …),  ωᵢ = base^(−2i/model_dim)

(Vaswani et al. 2017, section 3.5). Unlike learned positions there is nothing to learn and no
greatest length, and moving by k positions is one linear map, whatever the position.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.layers.angles import angle_arithmetic, angles, frequencies, require_pairs
from regard.layers.layer_cost import SequenceShape, require_shape
from regard.layers.sequence_input import require_sequence
from regard.layers.token_positions import token_positions


class SinusoidalPositions(nn.Module):
    """Adds PE(start), PE(start + 1), … to the tokens."""

    def __init__(self, *, model_dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        require_pairs("Sinusoidal positions", model_dim)
        self.model_dim = model_dim
        self.base = base

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        require_sequence("SinusoidalPositions", x, width=self.model_dim)
        positions = token_positions(start=start, length=x.shape[1], device=x.device)
        return x + self.table(positions).to(x.dtype)

    def table(self, positions: Int[Tensor, "*batch length"]) -> Float[Tensor, "*batch length _"]:
        """PE of the given positions, in float64.

        >>> SinusoidalPositions(model_dim=4).table(torch.tensor([0]))
        tensor([[0., 1., 0., 1.]], dtype=torch.float64)
        """
        turned = angles(positions, width=self.model_dim, base=self.base)
        return torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)

    def shift_matrix(self, shift: int) -> Float[Tensor, "_ _"]:
        """T⁽ᵏ⁾ with T⁽ᵏ⁾ PE(t) = PE(t + k) for every t: a rotation of each (sin, cos) pair."""
        turned = shift * frequencies(width=self.model_dim, base=self.base)
        sine, cosine = turned.sin(), turned.cos()
        matrix = torch.zeros(self.model_dim, self.model_dim, dtype=turned.dtype)
        matrix.diagonal().copy_(cosine.repeat_interleave(2))
        matrix.diagonal(1)[::2] = sine
        matrix.diagonal(-1)[::2] = -sine
        return matrix

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes with one start for all examples."""
        require_shape("SinusoidalPositions", shape)
        table, moved = shape.length * self.model_dim, shape.rows * self.model_dim
        turned = angle_arithmetic(length=shape.length, width=self.model_dim)
        return Cost(functions=table, arithmetic=turned + moved, memory=table + moved)
