"""Decoding that goes wrong."""

from __future__ import annotations

from typing import Any, Self

import torch
from tests.conformance.broken.sound import Plain, Prefix, SumState
from torch import Tensor

from regard.core.masks import NO_MASK, Mask
from regard.mechanisms.scores.kv_cache import KeyValueState


class ReadsTheStateBefore(Plain):
    """A read does not see the newest token."""

    def read(self, state: KeyValueState, query: Tensor, **words: Any) -> Tensor:
        if state.key.shape[2] > 1:
            state = state._replace(
                key=state.key[:, :, :-1],
                value=state.value[:, :, :-1],
                key_positions=state.key_positions[:, :-1],
            )
        return super().read(state, query, **words)


class WritesIntoItsState(Prefix):
    """Adds to the running sums in place."""

    def extend(
        self, state: SumState, key: Tensor, value: Tensor, mask: Mask = NO_MASK, *_: Any
    ) -> SumState:
        after = super().extend(state, key, value, mask)
        return SumState(state.memory.copy_(after.memory), state.total.copy_(after.total), after[2])


class KeepsItsStateToItself(Prefix):
    """Reads what it last took in, whichever state it is given."""

    latest: SumState | None = None

    def extend(
        self, state: SumState, key: Tensor, value: Tensor, mask: Mask = NO_MASK, *_: Any
    ) -> SumState:
        base = self.latest if self.latest and int(state.position.max()) else state
        self.latest = super().extend(base, key, value, mask)
        return self.latest


class UnorderedState(SumState):
    """A state that forgets one of its parts when it is reordered."""

    def select(self, index: Tensor) -> Self:
        chosen = super().select(index)
        rows = torch.arange(len(index)) % len(self.total)
        return chosen._replace(total=self.total[rows])


class LosesTheBeam(Prefix):
    """Its state's `select` leaves the totals in the old order."""

    def extend(self, *given: Any) -> SumState:
        return UnorderedState(*super().extend(*given))


class CountsPadding(Plain):
    """Position advances by the padded length."""

    def extend(
        self, state: KeyValueState, key: Tensor, value: Tensor, mask: Mask = NO_MASK
    ) -> KeyValueState:
        after = super().extend(state, key, value, mask)
        return after._replace(position=state.position + key.shape[2])


class TakesPaddingIn(Plain):
    """Padded keys enter the state like any other."""

    def extend(
        self, state: KeyValueState, key: Tensor, value: Tensor, mask: Mask = NO_MASK
    ) -> KeyValueState:
        after = super().extend(state, key, value)
        taken = key.shape[2] if mask.lengths is None else mask.lengths
        return after._replace(position=state.position + taken)


class ForgetsThePrompt(Plain):
    """What was padded once is thrown away at the next extension."""

    def extend(
        self, state: KeyValueState, key: Tensor, value: Tensor, mask: Mask = NO_MASK
    ) -> KeyValueState:
        ragged = (state.key_positions < 0).any(dim=1)[:, None]
        forgotten = state._replace(key_positions=state.key_positions.masked_fill(ragged, -1))
        return super().extend(forgotten, key, value, mask)


class KeepsTheLastOfAPiece(Plain):
    """Of several tokens taken in together only the last is kept, though all are counted."""

    def extend(
        self, state: KeyValueState, key: Tensor, value: Tensor, mask: Mask = NO_MASK
    ) -> KeyValueState:
        if mask.lengths is not None:
            return super().extend(state, key, value, mask)
        after = super().extend(state, key[:, :, -1:], value[:, :, -1:])
        return after._replace(position=state.position + key.shape[2])


class DecodesWithoutBias(Plain):
    """A read drops the score bias."""

    def read(self, state: KeyValueState, query: Tensor, **words: Any) -> Tensor:
        return super().read(state, query)


class StumblesOverNothing(Plain):
    """Cannot take in an empty piece."""

    def extend(
        self, state: KeyValueState, key: Tensor, value: Tensor, mask: Mask = NO_MASK
    ) -> KeyValueState:
        torch.stack(key.unbind(dim=2))
        return super().extend(state, key, value, mask)


class DividesByNothing(Prefix):
    """An empty state is divided by its total of zero."""

    def read(self, state: SumState, query: Tensor, *_: Any) -> Tensor:
        return super().read(state, query) / (state.position > 0)[:, None, None, None]


class PutsHeadsFirst(Prefix):
    """Its state has the heads before the batch."""

    def start(self, **words: Any) -> Any:
        state = super().start(**words)
        return state._replace(total=state.total.transpose(0, 1))
