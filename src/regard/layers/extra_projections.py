"""What a mechanism wants to know of each key beyond key and value: a decay, a write strength.

Each declared `Extra` is squash(linear(context)), one number or one vector as wide as a key, for
every key/value head.
"""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.mechanism import Extra
from regard.layers.layer_cost import cost_of
from regard.layers.projections import split_heads


class ExtraProjections(nn.Module):
    """A linear layer for each declared extra; its output goes to the mechanism under its name."""

    def __init__(
        self, *, extras: tuple[Extra, ...], context_dim: int, num_kv_heads: int, key_dim: int
    ) -> None:
        super().__init__()
        self.extras = extras
        self.widths = {extra.name: key_dim if extra.width == "key_dim" else 1 for extra in extras}
        self.linears = nn.ModuleDict(
            {
                extra.name: nn.Linear(context_dim, num_kv_heads * self.widths[extra.name])
                for extra in extras
            }
        )

    def forward(
        self, context: Float[Tensor, "batch key_length context_dim"]
    ) -> dict[str, Float[Tensor, "batch kv_heads key_length _"]]:
        return {
            extra.name: extra.squash(
                split_heads(self.linears[extra.name](context), self.widths[extra.name])
            )
            for extra in self.extras
        }

    def cost(self, *, rows: int) -> Cost:
        """What they take, beside the other projections; a squash is one function an entry."""
        parts = (
            cost_of(linear, rows=rows)
            for linear in self.linears.values()
            if isinstance(linear, nn.Linear)
        )
        linears = sum(parts, start=Cost())
        entries = linears.memory
        return replace(linears, functions=entries, memory=2 * entries, sequential_steps=0)
