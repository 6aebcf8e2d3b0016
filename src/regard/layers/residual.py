"""The way round a sublayer, with its layer norm before the sublayer or after the sum.

before (pre-norm)    x + sublayer(norm(x))        steadier to train (Xiong et al. 2020)
after (post-norm)    norm(x + sublayer(x))        the original (Vaswani et al. 2017)
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.layers.layer_cost import SequenceShape, norm_cost


class Residual(nn.Module):
    """Used as `x = residual.join(x, sublayer(residual.enter(x)))`."""

    def __init__(self, *, model_dim: int, norm_first: bool, norm_epsilon: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.norm_first = norm_first

    def enter(
        self, x: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch length model_dim"]:
        """What the sublayer is given."""
        entered: Tensor = self.norm(x) if self.norm_first else x
        return entered

    def join(
        self,
        x: Float[Tensor, "batch length model_dim"],
        change: Float[Tensor, "batch length model_dim"],
    ) -> Float[Tensor, "batch length model_dim"]:
        """What becomes of x once the sublayer has said its part."""
        joined: Tensor = x + change if self.norm_first else self.norm(x + change)
        return joined

    def cost(self, shape: SequenceShape) -> Cost:
        """The norm and the sum."""
        (model_dim,) = self.norm.normalized_shape
        norm, numbers = norm_cost(rows=shape.rows, model_dim=model_dim), shape.rows * model_dim
        return norm + Cost(arithmetic=numbers, memory=numbers)
