"""Recurrent encoder: layers of LSTM or GRU, one way or both, that end in a memory to be read.

Its outputs have `hidden_dim` features whatever the number of directions: read both ways, each direction
has half of them. So the memory is as wide as the decoder's state, and any score fits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.layers.layer_cost import SequenceShape
from regard.layers.recurrent import Recurrent


class Encoded(NamedTuple):
    """The source as read: every position, and where the last layer stopped, directions side by side."""

    memory: Float[Tensor, "batch length hidden_dim"]
    last_hidden: Float[Tensor, "batch hidden_dim"]
    last_memory: Float[Tensor, "batch memory_dim"]


class RecurrentEncoder(nn.Module):
    """`num_layers` layers with dropout between them."""

    def __init__(
        self,
        *,
        embedding_dim: int,
        hidden_dim: int,
        num_layers: int,
        cell: str,
        bidirectional: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        if bidirectional and hidden_dim % 2:
            raise RegardError(
                f"The recurrent encoder has hidden_dim={hidden_dim} and bidirectional=True: each "
                "direction has half of it, so it must be even. Choose an even hidden_dim, or "
                "bidirectional=False."
            )
        self.layers = nn.ModuleList(
            Recurrent(
                model_dim=hidden_dim if number else embedding_dim,
                hidden_dim=hidden_dim // (1 + bidirectional),
                cell=cell,
                bidirectional=bidirectional,
            )
            for number in range(num_layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch length embedding_dim"], mask: Mask) -> Encoded:
        for number, layer in enumerate(self.layers):
            x, last = layer(self.dropout(x) if number else x, mask)
        return Encoded(x, last.hidden.flatten(1), last.memory.flatten(1))

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes; none of it is state or a step, since the decoder keeps the memory."""
        total = Cost()
        for layer in self.layers:
            assert isinstance(layer, Recurrent)
            # Of packed sequences, every output is looked at for whether its row is empty.
            width = layer.layer.hidden_size * (1 + layer.layer.bidirectional)
            total += replace(layer.cost(shape), state=0, step_products=0)
            total += Cost(arithmetic=shape.rows * width)
        return total
