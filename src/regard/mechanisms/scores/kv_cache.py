"""The decoding state that keeps tokens: their keys, their values and where they stood.

Rows may have taken in different numbers of tokens, so every slot knows its position in its own row.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import select_rows

# Free slots behind the tokens of a decoding state, so that the next token is written, not all
# copied.
#
# slots   a b c | . . .      step      a b c d | . .      step again from a b c      a b c x | . . .
#
# The room belongs to one state at a time: the first continuation takes it along, and another one of
# the same state, finding none, copies the tokens into room of its own. So no slot is written twice,
# and the states of the past keep what they hold. It doubles whenever it is full.


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


NO_TOKEN = -1
# An attribute beside the fields: it is no part of what the state says.
ROOM = "room"


class _Tokens(NamedTuple):
    key: Float[Tensor, "batch kv_heads slots key_dim"]
    value: Float[Tensor, "batch kept_heads slots value_dim"]
    key_positions: Int[Tensor, "batch slots"]
    position: Int[Tensor, " batch"]


class KeyValueState(_Tokens):
    """The tokens taken in; `key_positions` is NO_TOKEN in slots where a row was padded.

    In inference mode the latest state also has room for more, which `take` passes on to the next.
    """

    @classmethod
    def empty(cls, key: Tensor, value: Tensor) -> Self:
        """No tokens yet, of the kind that `key` and `value` (of length 0) describe."""
        position = torch.zeros(key.shape[0], dtype=torch.long, device=key.device)
        return cls(key=key, value=value, key_positions=position[:, None][:, :0], position=position)

    @property
    def real(self) -> Bool[Tensor, "batch slots"]:
        """Which slots hold a token."""
        return self.key_positions != NO_TOKEN

    @property
    def fewest(self) -> int:
        """The number of tokens that the row with the fewest has taken in."""
        return min(self.position.tolist(), default=0)

    @property
    def is_full(self) -> bool:
        """Whether every slot of every row holds a token: there is one at least, and no padding."""
        slots = self.key.shape[2]
        return 0 < slots <= self.fewest

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        room: Room | None = vars(self).get(ROOM)
        if room is None or not torch.is_inference_mode_enabled():
            return select_rows(self, index)
        slots = self.key.shape[2]
        chosen = self.position.index_select(0, index)
        return self._within(room.select(index, slots=slots), slots=slots, position=chosen)

    def append(self, key: Tensor, value: Tensor, mask: Mask) -> Self:
        """The state with further tokens; those that `mask.lengths` leaves out become empty slots."""
        length = key.shape[2]
        positions = self.position[:, None] + torch.arange(length, device=key.device)
        taken = torch.full_like(self.position, length)
        if mask.lengths is not None:
            positions = positions.masked_fill(~mask.keep(length), NO_TOKEN)
            taken = mask.lengths.to(taken)
        return self._replace(
            key=torch.cat([self.key, key], dim=2),
            value=torch.cat([self.value, value], dim=2),
            key_positions=torch.cat([self.key_positions, positions], dim=1),
            position=self.position + taken,
        )

    def take(self, key: Tensor, value: Tensor) -> Self:
        """The state with one token more in every row; in inference mode the others are not copied."""
        # Rows or heads of another number are for `append` to refuse: a write would spread them.
        fitting = key.shape[:2] == self.key.shape[:2]
        if not fitting or not torch.is_inference_mode_enabled():
            return self.append(key, value, NO_MASK)
        slot = self.key.shape[2]
        # Taken out of the state, so that another continuation of it does not write into it too.
        room: Room | None = vars(self).pop(ROOM, None)
        if room is None or room.key.shape[2] == slot:
            room = Room.behind(*self)
        room.put(slot, key, value)
        return self._within(room, slots=slot + 1, position=self.position + 1)

    def __getstate__(self) -> None:
        """Nothing beside the fields: a copy must not have the same room."""

    @classmethod
    def _within(cls, room: Room, *, slots: int, position: Tensor) -> Self:
        state = cls(*room.first(slots), position)
        vars(state)[ROOM] = room
        return state

    def latest(self, count: int) -> Self:
        """The state with at most `count` slots: each row's latest tokens, in order."""
        if self.key.shape[2] <= count:
            return self
        # Empty slots sort first and so are the first to go.
        slots = self.key_positions.argsort(dim=1, stable=True)[:, -count:]
        return self._replace(
            key=self.key.take_along_dim(slots[:, None, :, None], dim=2),
            value=self.value.take_along_dim(slots[:, None, :, None], dim=2),
            key_positions=self.key_positions.take_along_dim(slots, dim=1),
        )
