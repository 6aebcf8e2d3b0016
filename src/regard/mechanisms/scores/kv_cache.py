"""KV cache: the decoding state of score mechanisms, with the keys, values and positions of all tokens.

It is what Hugging Face calls `past_key_values`. Rows may hold different numbers of tokens, so every slot
stores its position in its own row.

In inference mode a cache has spare capacity behind its tokens, which doubles when it is full, so that a
step writes one token and copies none:

    slots   a b c | . . .      step      a b c d | . .      step again from a b c      a b c x | . . .

The buffer belongs to one cache at a time: the first continuation takes it over, and another continuation
of the same cache copies the tokens into a buffer of its own. No slot is written twice, so earlier caches
stay valid.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import select_rows

MIN_SPARE = 16
EMPTY_SLOT = -1
# The buffer is an attribute beside the fields of the tuple, and no part of the cache's value.
BUFFER = "buffer"


class CacheBuffer(NamedTuple):
    """Tokens and spare capacity; `key_positions` is filled ahead, since new tokens are not padding."""

    key: Float[Tensor, "batch kept_heads capacity cached_dim"]
    value: Float[Tensor, "batch kv_heads capacity value_dim"]
    key_positions: Int[Tensor, "batch capacity"]

    @classmethod
    def allocate(
        cls,
        key: Float[Tensor, "batch kept_heads slots cached_dim"],
        value: Float[Tensor, "batch kv_heads slots value_dim"],
        key_positions: Int[Tensor, "batch slots"],
        position: Int[Tensor, " batch"],
    ) -> Self:
        """A copy of the tokens of a cache with at least as many free slots behind them."""
        spare = max(key.shape[2], MIN_SPARE)
        ahead = position[:, None] + torch.arange(spare, device=position.device)
        return cls(
            key=_lengthened(key, spare),
            value=_lengthened(value, spare),
            key_positions=torch.cat([key_positions, ahead], dim=1),
        )

    def write(
        self,
        slot: int,
        key: Float[Tensor, "batch kept_heads 1 cached_dim"],
        value: Float[Tensor, "batch kv_heads 1 value_dim"],
    ) -> None:
        """Write one token into a slot."""
        self.key.narrow(2, slot, 1).copy_(key)
        self.value.narrow(2, slot, 1).copy_(value)

    def first(self, slots: int) -> Self:
        """The first slots, as views."""
        return type(self)(
            key=self.key.narrow(2, 0, slots),
            value=self.value.narrow(2, 0, slots),
            key_positions=self.key_positions.narrow(1, 0, slots),
        )

    def select(self, index: Int[Tensor, " rows"], *, slots: int) -> Self:
        """A new buffer whose row r has the first slots of row index[r]."""
        return type(self)(
            key=_selected(self.key, index, slots),
            value=_selected(self.value, index, slots),
            key_positions=self.key_positions.index_select(0, index),
        )


def _lengthened(tokens: Tensor, spare: int) -> Tensor:
    batch, heads, slots, width = tokens.shape
    long = tokens.new_empty(batch, heads, slots + spare, width)
    long.narrow(2, 0, slots).copy_(tokens)
    return long


def _selected(tokens: Tensor, index: Tensor, slots: int) -> Tensor:
    chosen = tokens.new_empty(len(index), *tokens.shape[1:])
    # The free slots are not copied.
    torch.index_select(tokens.narrow(2, 0, slots), 0, index, out=chosen.narrow(2, 0, slots))
    return chosen


class _Tokens(NamedTuple):
    key: Float[Tensor, "batch kv_heads slots key_dim"]
    value: Float[Tensor, "batch kept_heads slots value_dim"]
    key_positions: Int[Tensor, "batch slots"]
    position: Int[Tensor, " batch"]


class KVCache(_Tokens):
    """Cached keys and values; `key_positions` is EMPTY_SLOT where a row was padded."""

    @classmethod
    def empty(cls, key: Tensor, value: Tensor) -> Self:
        """A cache without tokens, for keys and values like `key` and `value`, of length 0."""
        position = torch.zeros(key.shape[0], dtype=torch.long, device=key.device)
        return cls(key=key, value=value, key_positions=position[:, None][:, :0], position=position)

    @property
    def is_token(self) -> Bool[Tensor, "batch slots"]:
        """Which slots hold a token."""
        return self.key_positions != EMPTY_SLOT

    @property
    def min_length(self) -> int:
        """The number of tokens in the shortest row."""
        return min(self.position.tolist(), default=0)

    @property
    def is_full(self) -> bool:
        """Whether there are slots and every one, in every row, holds a token."""
        slots = self.key.shape[2]
        return 0 < slots <= self.min_length

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The cache whose row r is row index[r] of this one."""
        buffer: CacheBuffer | None = vars(self).get(BUFFER)
        if buffer is None or not torch.is_inference_mode_enabled():
            return select_rows(self, index)
        slots = self.key.shape[2]
        chosen = self.position.index_select(0, index)
        return self._within(buffer.select(index, slots=slots), slots=slots, position=chosen)

    def append(self, key: Tensor, value: Tensor, mask: Mask) -> Self:
        """The cache with further tokens; positions that `mask.lengths` pads become empty slots."""
        length = key.shape[2]
        positions = self.position[:, None] + torch.arange(length, device=key.device)
        taken = torch.full_like(self.position, length)
        if mask.lengths is not None:
            positions = positions.masked_fill(~mask.keep(length), EMPTY_SLOT)
            taken = mask.lengths.to(taken)
        return self._replace(
            key=torch.cat([self.key, key], dim=2),
            value=torch.cat([self.value, value], dim=2),
            key_positions=torch.cat([self.key_positions, positions], dim=1),
            position=self.position + taken,
        )

    def append_one(self, key: Tensor, value: Tensor) -> Self:
        """The cache with one more token in every row; in inference mode the others are not copied."""
        # A write would broadcast a wrong number of rows or heads; `append` raises an error.
        same_sizes = key.shape[:2] == self.key.shape[:2]
        if not same_sizes or not torch.is_inference_mode_enabled():
            return self.append(key, value, NO_MASK)
        slot = self.key.shape[2]
        # Removed from this cache, so that another continuation of it does not write there too.
        buffer: CacheBuffer | None = vars(self).pop(BUFFER, None)
        if buffer is None or buffer.key.shape[2] == slot:
            buffer = CacheBuffer.allocate(*self)
        buffer.write(slot, key, value)
        return self._within(buffer, slots=slot + 1, position=self.position + 1)

    def __getstate__(self) -> None:
        """Only the fields: a copy must not share the buffer."""

    @classmethod
    def _within(cls, buffer: CacheBuffer, *, slots: int, position: Tensor) -> Self:
        cache = cls(*buffer.first(slots), position)
        vars(cache)[BUFFER] = buffer
        return cache

    def latest(self, count: int) -> Self:
        """The cache with at most `count` slots: each row's latest tokens, in order."""
        if self.key.shape[2] <= count:
            return self
        # Empty slots sort first, so they are dropped first.
        slots = self.key_positions.argsort(dim=1, stable=True)[:, -count:]
        return self._replace(
            key=self.key.take_along_dim(slots[:, None, :, None], dim=2),
            value=self.value.take_along_dim(slots[:, None, :, None], dim=2),
            key_positions=self.key_positions.take_along_dim(slots, dim=1),
        )
