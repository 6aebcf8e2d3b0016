"""Position-wise feed-forward layer (MLP), and activations by name.

W₂ activation(W₁ x + b₁) + b₂     (Vaswani et al. 2017, eq. 2)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.options import PositiveInt, Probability, validated
from regard.core.registry import lookup
from regard.layers.cost import SequenceShape, forward_cost
from regard.layers.dropout import Dropout
from regard.layers.validation import validate_sequence


class Activation(NamedTuple):
    """An activation function and its cost per entry."""

    function: Callable[[Tensor], Tensor]
    transcendental_ops: int
    elementwise_ops: int = 0


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(F.relu, 0, elementwise_ops=1),
    "gelu": Activation(F.gelu, 1),
    # The tanh approximation, as in GPT-2.
    "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), 1),
    "silu": Activation(F.silu, 1),
    "tanh": Activation(torch.tanh, 1),
    "sigmoid": Activation(torch.sigmoid, 1),
}


class FeedForward(nn.Module):
    """From `model_dim` to `hidden_dim` (default 4 × model_dim) and back.

    `dropout` is on the output, and on the hidden features unless `hidden_dropout` is set.
    """

    @validated
    def __init__(
        self,
        *,
        model_dim: PositiveInt,
        hidden_dim: PositiveInt | None = None,
        activation: str = "relu",
        bias: bool = True,
        dropout: Probability = 0.0,
        hidden_dropout: Probability | None = None,
    ) -> None:
        super().__init__()
        self.activation = lookup("activation", activation, ACTIVATIONS)
        hidden_dim = 4 * model_dim if hidden_dim is None else hidden_dim
        self.widen = nn.Linear(model_dim, hidden_dim, bias=bias)
        self.narrow = nn.Linear(hidden_dim, model_dim, bias=bias)
        self.dropout = Dropout(dropout)
        self.hidden_dropout = Dropout(dropout if hidden_dropout is None else hidden_dropout)

    def forward(
        self, x: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch length model_dim"]:
        validate_sequence("FeedForward", x, width=self.widen.in_features)
        hidden = self.hidden_dropout(self.activation.function(self.widen(x)))
        output: Tensor = self.dropout(self.narrow(hidden))
        return output

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted. It mixes no positions, so `max_path_length` is 0."""
        return forward_cost(self, shape, width=self.widen.in_features)
