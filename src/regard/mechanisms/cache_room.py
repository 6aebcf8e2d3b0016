"""Free slots behind the tokens of a decoding state, so that the next token is written, not all copied.

    slots   a b c | . . .      step      a b c d | . .      step again from a b c      a b c x | . . .

The room belongs to one state at a time: the first continuation takes it along, and another one of the
same state, finding none, copies the tokens into room of its own. So no slot is written twice, and the
states of the past keep what they hold. It doubles whenever it is full.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

LEAST_SPARE = 16


class Room(NamedTuple):
    """The tokens and the free slots; `key_positions` is filled ahead, as none to come will be padded."""

    key: Float[Tensor, "batch kept_heads capacity remembered_dim"]
    value: Float[Tensor, "batch kv_heads capacity value_dim"]
    key_positions: Int[Tensor, "batch capacity"]

    @classmethod
    def behind(
        cls,
        key: Float[Tensor, "batch kept_heads slots remembered_dim"],
        value: Float[Tensor, "batch kv_heads slots value_dim"],
        key_positions: Int[Tensor, "batch slots"],
        position: Int[Tensor, " batch"],
    ) -> Self:
        """A copy of the tokens of a state with at least as many free slots behind them."""
        spare = max(key.shape[2], LEAST_SPARE)
        ahead = position[:, None] + torch.arange(spare, device=position.device)
        return cls(
            key=_lengthened(key, spare),
            value=_lengthened(value, spare),
            key_positions=torch.cat([key_positions, ahead], dim=1),
        )

    def put(
        self,
        slot: int,
        key: Float[Tensor, "batch kept_heads 1 remembered_dim"],
        value: Float[Tensor, "batch kv_heads 1 value_dim"],
    ) -> None:
        """Write the token of a slot."""
        self.key.narrow(2, slot, 1).copy_(key)
        self.value.narrow(2, slot, 1).copy_(value)

    def first(self, slots: int) -> Self:
        """The tokens of the first slots, as views."""
        return type(self)(
            key=self.key.narrow(2, 0, slots),
            value=self.value.narrow(2, 0, slots),
            key_positions=self.key_positions.narrow(1, 0, slots),
        )

    def select(self, index: Int[Tensor, " rows"], *, slots: int) -> Self:
        """Room of its own whose row r has the first slots of this one's row index[r]."""
        return type(self)(
            key=_selected(self.key, index, slots),
            value=_selected(self.value, index, slots),
            key_positions=self.key_positions.index_select(0, index),
        )


def _lengthened(kept: Tensor, spare: int) -> Tensor:
    batch, heads, slots, width = kept.shape
    long = kept.new_empty(batch, heads, slots + spare, width)
    long.narrow(2, 0, slots).copy_(kept)
    return long


def _selected(kept: Tensor, index: Tensor, slots: int) -> Tensor:
    chosen = kept.new_empty(len(index), *kept.shape[1:])
    # What the free slots hold is not worth a copy.
    torch.index_select(kept.narrow(2, 0, slots), 0, index, out=chosen.narrow(2, 0, slots))
    return chosen
