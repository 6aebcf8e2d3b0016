"""Mechanisms with wrong decoding states."""

from __future__ import annotations

from typing import Any, Self

import torch
from tests.conformance.broken.sound import Plain, Prefix, SumState
from torch import Tensor

from regard.core.masks import NO_MASK, Mask
from regard.mechanisms.scores.kv_cache import KVCache


class ReadsTheStateBefore(Plain):
    """`read` does not see the newest token."""

    def read(self, state: KVCache, query: Tensor, **kwargs: Any) -> Tensor:
        if state.key.shape[2] > 1:
            state = state._replace(
                key=state.key[:, :, :-1],
                value=state.value[:, :, :-1],
                key_positions=state.key_positions[:, :-1],
            )
        return super().read(state, query, **kwargs)


class WritesIntoItsState(Prefix):
    """Adds to the running sums in place."""

    def extend(
        self, state: SumState, key: Tensor, value: Tensor, mask: Mask = NO_MASK, *_: Any
    ) -> SumState:
        after = super().extend(state, key, value, mask)
        return SumState(state.memory.copy_(after.memory), state.total.copy_(after.total), after[2])


class KeepsStateOnSelf(Prefix):
    """Stores its latest state on `self` and ignores the one it is given."""

    latest: SumState | None = None

    def extend(
        self, state: SumState, key: Tensor, value: Tensor, mask: Mask = NO_MASK, *_: Any
    ) -> SumState:
        base = self.latest if self.latest and int(state.position.max()) else state
        self.latest = super().extend(base, key, value, mask)
        return self.latest


class UnorderedState(SumState):
    """A state whose `select` does not reorder one field."""

    def select(self, index: Tensor) -> Self:
        chosen = super().select(index)
        rows = torch.arange(len(index)) % len(self.total)
        return chosen._replace(total=self.total[rows])


class SelectKeepsOldOrder(Prefix):
    """Its state's `select` leaves the totals in the old order."""

    def extend(self, *args: Any) -> SumState:
        return UnorderedState(*super().extend(*args))


class CountsPadding(Plain):
    """Position advances by the padded length."""

    def extend(self, state: KVCache, key: Tensor, value: Tensor, mask: Mask = NO_MASK) -> KVCache:
        after = super().extend(state, key, value, mask)
        return after._replace(position=state.position + key.shape[2])


class AppendsPadding(Plain):
    """Padded keys are appended like any other."""

    def extend(self, state: KVCache, key: Tensor, value: Tensor, mask: Mask = NO_MASK) -> KVCache:
        after = super().extend(state, key, value)
        count = key.shape[2] if mask.lengths is None else mask.lengths
        return after._replace(position=state.position + count)


class DropsPaddedPrompt(Plain):
    """A padded prompt is dropped at the next `extend`."""

    def extend(self, state: KVCache, key: Tensor, value: Tensor, mask: Mask = NO_MASK) -> KVCache:
        ragged = (state.key_positions < 0).any(dim=1)[:, None]
        forgotten = state._replace(key_positions=state.key_positions.masked_fill(ragged, -1))
        return super().extend(forgotten, key, value, mask)


class KeepsLastOfChunk(Plain):
    """Of a chunk of tokens only the last is stored, though all are counted."""

    def extend(self, state: KVCache, key: Tensor, value: Tensor, mask: Mask = NO_MASK) -> KVCache:
        if mask.lengths is not None:
            return super().extend(state, key, value, mask)
        after = super().extend(state, key[:, :, -1:], value[:, :, -1:])
        return after._replace(position=state.position + key.shape[2])


class DecodesWithoutBias(Plain):
    """`read` ignores the score bias."""

    def read(self, state: KVCache, query: Tensor, **kwargs: Any) -> Tensor:
        return super().read(state, query)


class FailsOnEmptyChunk(Plain):
    """`extend` fails on an empty chunk."""

    def extend(self, state: KVCache, key: Tensor, value: Tensor, mask: Mask = NO_MASK) -> KVCache:
        torch.stack(key.unbind(dim=2))
        return super().extend(state, key, value, mask)


class DividesByZeroTotal(Prefix):
    """Divides an empty state by its zero total."""

    def read(self, state: SumState, query: Tensor, *_: Any) -> Tensor:
        return super().read(state, query) / (state.position > 0)[:, None, None, None]


class PutsHeadsFirst(Prefix):
    """Its state has the heads before the batch."""

    def start(self, **kwargs: Any) -> Any:
        state = super().start(**kwargs)
        return state._replace(total=state.total.transpose(0, 1))
