"""The decoding state that keeps tokens: their keys, their values and where they stood.

Rows may have taken in different numbers of tokens, so every slot knows its position in its own row.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.masks import Mask
from regard.core.state import select_rows

NO_TOKEN = -1


class KeyValueState(NamedTuple):
    """The tokens taken in; `key_positions` is NO_TOKEN in slots where a row was padded."""

    key: Float[Tensor, "batch kv_heads slots key_dim"]
    value: Float[Tensor, "batch kept_heads slots value_dim"]
    key_positions: Int[Tensor, "batch slots"]
    position: Int[Tensor, " batch"]

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
    def is_begun(self) -> bool:
        """Whether every row has taken in a token."""
        return self.position.numel() > 0 and int(self.position.min()) > 0

    @property
    def is_full(self) -> bool:
        """Whether every slot of every row holds a token: there is one at least, and no padding."""
        slots = self.key.shape[2]
        return slots > 0 and self.position.numel() > 0 and int(self.position.min()) >= slots

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return select_rows(self, index)

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
