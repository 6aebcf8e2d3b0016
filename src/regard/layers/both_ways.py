"""A recurrent layer read both ways over padded rows, without packing.

    forward     x₁ x₂ x₃ ·  →          padding comes last, so nothing before it sees it
    backward    x₃ x₂ x₁ ·  →  put back in order

Each row's real part is turned round, read by a second layer from left to right, and turned back. That
gives what `Recurrent(bidirectional=True)` gives under a padding mask, at a multiple of its speed on a CPU:
torch takes packed rows one time step at a time, padded ones in one call. It keeps no state at the end.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.layers.layer_cost import SequenceShape
from regard.layers.recurrent import Recurrent

# Of every place: whether it is real, and where it goes when its row is turned round.
PLACE_ARITHMETIC = 4


class BothWays(nn.Module):
    """From `model_dim` to 2 · `hidden_dim` features at every position; zeros where there is padding."""

    def __init__(self, *, model_dim: int, hidden_dim: int, cell: str = "lstm") -> None:
        super().__init__()
        self.onward = Recurrent(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)
        self.backward_layer = Recurrent(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)

    @property
    def output_dim(self) -> int:
        """Features of a position: those of both directions."""
        return 2 * self.onward.layer.hidden_size

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch length output_dim"]:
        place = torch.arange(x.shape[1], device=x.device)[None]
        real = place < lengths[:, None]
        # Padding stays where it is: the layer reads it last, and its outputs are dropped.
        turned = torch.where(real, lengths[:, None] - 1 - place, place)[:, :, None]
        there = self.onward(x).output
        back = self.backward_layer(x.gather(1, turned.expand_as(x))).output
        both = torch.cat([there, back.gather(1, turned.expand_as(back))], dim=-1)
        return both.masked_fill(~real[:, :, None], 0.0)

    def cost(self, shape: SequenceShape) -> Cost:
        """Two layers, and their outputs without those of padding; neither goes on token by token."""
        total = self.onward.cost(shape) + self.backward_layer.cost(shape)
        total += Cost(arithmetic=shape.rows * (self.output_dim + PLACE_ARITHMETIC))
        return replace(
            total, step_products=0, sequential_steps=shape.length, longest_path=shape.length
        )
