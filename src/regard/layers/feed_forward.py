"""Feed-forward: two linear layers with an activation between, at every position alone.

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
from regard.core.registry import look_up
from regard.layers.cost import SequenceShape, cost_of, require_shape
from regard.layers.dropout import Dropout
from regard.layers.validation import require_dropout, require_positive, require_sequence

# Activations by name, with what they cost: function evaluations and arithmetic an entry.


class Activation(NamedTuple):
    """A function of every entry, how many transcendental functions it evaluates, and what else."""

    function: Callable[[Tensor], Tensor]
    evaluations: int
    arithmetic: int = 0


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(F.relu, 0, arithmetic=1),
    "gelu": Activation(F.gelu, 1),
    # With tanh in place of the error function, as GPT-2 was trained.
    "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), 1),
    "silu": Activation(F.silu, 1),
    "tanh": Activation(torch.tanh, 1),
    "sigmoid": Activation(torch.sigmoid, 1),
}


class FeedForward(nn.Module):
    """From `model_dim` through `hidden_dim` (four times as wide unless given) and back.

    `dropout` is on the output, and on the hidden features unless these have a `hidden_dropout`.
    """

    def __init__(
        self,
        *,
        model_dim: int,
        hidden_dim: int | None = None,
        activation: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
        hidden_dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.activation = look_up("activation", activation, ACTIVATIONS)
        require_positive("FeedForward", model_dim=model_dim)
        hidden_dim = 4 * model_dim if hidden_dim is None else hidden_dim
        require_positive("FeedForward", hidden_dim=hidden_dim)
        require_dropout("FeedForward", dropout)
        self.widen = nn.Linear(model_dim, hidden_dim, bias=bias)
        self.narrow = nn.Linear(hidden_dim, model_dim, bias=bias)
        self.dropout = Dropout(dropout)
        hidden_dropout = dropout if hidden_dropout is None else hidden_dropout
        require_dropout("FeedForward", hidden_dropout)
        self.hidden_dropout = Dropout(hidden_dropout)

    def forward(
        self, x: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch length model_dim"]:
        require_sequence("FeedForward", x, width=self.widen.in_features)
        hidden = self.hidden_dropout(self.activation.function(self.widen(x)))
        output: Tensor = self.dropout(self.narrow(hidden))
        return output

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes. It mixes no positions, and so shortens no path."""
        require_shape("FeedForward", shape)
        entries = shape.rows * self.widen.out_features
        activated = Cost(
            functions=entries * self.activation.evaluations,
            arithmetic=entries * self.activation.arithmetic,
            memory=entries,
        )
        return (
            cost_of(self.widen, rows=shape.rows) + activated + cost_of(self.narrow, rows=shape.rows)
        )
