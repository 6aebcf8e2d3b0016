"""What a recurrent decoder remembers between tokens, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple, Self

from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State


class RecurrentDecoderState(NamedTuple):
    """Where the decoder stands: its layers, the features fed back, and the source it reads."""

    hidden: Float[Tensor, "batch layers hidden_dim"]
    memory: Float[Tensor, "batch layers memory_dim"]
    fed: Float[Tensor, "batch fed_dim"]
    source: State | None
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return self._replace(
            hidden=self.hidden.index_select(0, index),
            memory=self.memory.index_select(0, index),
            fed=self.fed.index_select(0, index),
            source=None if self.source is None else self.source.select(index),
            position=self.position.index_select(0, index),
        )


class Decoded(NamedTuple):
    """The features of every new place, what asked the source for them, and the state reached."""

    features: Float[Tensor, "batch length hidden_dim"]
    queries: Float[Tensor, "batch length hidden_dim"]
    state: RecurrentDecoderState
