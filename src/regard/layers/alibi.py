"""ALiBi (attention with linear biases; Press et al. 2022): scores are lowered linearly with the distance.

    bias(i, j) = −slope · |i − j|,  with slopes 2^(−8/h), 2^(−16/h), …, one per head

For a number of heads that is no power of two, the slopes are those of the paper's code. It needs a
mechanism with scores. The paper is causal; here the distance is symmetric.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.options import PositiveInt, validated


class Alibi(nn.Module):
    """A `ScoreBias`: a bias on the score of each query–key pair."""

    slopes: Float[Tensor, " heads"]

    @validated
    def __init__(self, *, num_heads: PositiveInt) -> None:
        super().__init__()
        # A buffer, so that it follows the layer's device and dtype; not in the state_dict.
        self.register_buffer("slopes", torch.tensor(head_slopes(num_heads)), persistent=False)

    def values(
        self,
        query_positions: Int[Tensor, "*rows query_length"],
        key_positions: Int[Tensor, "*rows key_length"],
    ) -> Float[Tensor, "_rows heads query_length key_length"]:
        """The bias of every pair; positions are one row for all examples, or one per example."""
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs()
        if distance.dim() == 2:
            distance = distance[None]
        return distance[:, None] * -self.slopes[:, None, None]


def head_slopes(num_heads: int) -> list[float]:
    """One slope per head: a geometric series; beyond a power of two, intermediate slopes.

    >>> head_slopes(2)
    [0.0625, 0.00390625]
    >>> head_slopes(3)
    [0.0625, 0.00390625, 0.25]
    """
    power = 1 << (num_heads.bit_length() - 1)
    series = [2.0 ** (-8 * step / power) for step in range(1, power + 1)]
    between = [2.0 ** (-4 * step / power) for step in range(1, 2 * power, 2)]
    return series + between[: num_heads - power]
