"""ALiBi: every head takes a penalty off its scores that grows with the distance.

    bias(i, j) = −slope · |i − j|,  with slopes 2^(−8/h), 2^(−16/h), …, one a head

(Press et al. 2022; the slopes of its code where the heads are no power of two). Added to scores, so
only mechanisms that have scores take it. The paper is causal; the distance here counts both ways.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.layers.cost import SequenceShape, require_shape
from regard.layers.validation import require_positive


class Alibi(nn.Module):
    """A `ScoreBias`: what the scores of a mechanism have added for each pair of positions."""

    slopes: Float[Tensor, " heads"]

    def __init__(self, *, num_heads: int) -> None:
        super().__init__()
        require_positive("Alibi", num_heads=num_heads)
        # Follows the layer to its device and number type, and is no part of what is saved.
        self.register_buffer("slopes", torch.tensor(head_slopes(num_heads)), persistent=False)

    def values(
        self,
        query_positions: Int[Tensor, "*rows query_length"],
        key_positions: Int[Tensor, "*rows key_length"],
    ) -> Float[Tensor, "_rows heads query_length key_length"]:
        """The bias of every pair; positions are one row for all examples, or a row each."""
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs()
        if distance.dim() == 2:
            distance = distance[None]
        return distance[:, None] * -self.slopes[:, None, None]

    def cost(self, shape: SequenceShape) -> Cost:
        """The table of distances, once for all examples."""
        require_shape("Alibi", shape)
        heads, pairs = len(self.slopes), shape.length**2
        # A difference and its size a pair; then a product a head.
        return Cost(arithmetic=(2 + heads) * pairs + heads, memory=heads * pairs)


def head_slopes(num_heads: int) -> list[float]:
    """One slope a head: a geometric series, and past a power of two, slopes from between.

    >>> head_slopes(2)
    [0.0625, 0.00390625]
    >>> head_slopes(3)
    [0.0625, 0.00390625, 0.25]
    """
    power = 1 << (num_heads.bit_length() - 1)
    series = [2.0 ** (-8 * step / power) for step in range(1, power + 1)]
    between = [2.0 ** (-4 * step / power) for step in range(1, 2 * power, 2)]
    return series + between[: num_heads - power]
