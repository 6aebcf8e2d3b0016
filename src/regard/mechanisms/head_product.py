"""Multiplying each head by a matrix of its own, or all heads by one."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def head_product(
    x: Float[Tensor, "batch heads length width"], weight: Float[Tensor, "_heads width out_width"]
) -> Float[Tensor, "batch heads length out_width"]:
    """x @ weight, where `weight` has a matrix a head or one for all.

    One for all is a single product of all rows. Broadcast, it would be one product for each example, and
    its gradient one matrix for each example, added up.
    """
    return x @ (weight[0] if len(weight) == 1 else weight)
