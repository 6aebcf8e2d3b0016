"""No positions: tokens pass as they are, and self-attention is blind to their order."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.layers.layer_cost import SequenceShape, require_shape


class NoPositions(nn.Module):
    """Adds nothing. Without a mask, what follows is equivariant to permutations of the tokens."""

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        return x

    def cost(self, shape: SequenceShape) -> Cost:
        """Nothing."""
        require_shape("NoPositions", shape)
        return Cost()
