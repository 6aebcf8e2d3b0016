"""Decoding without a memory: every step runs the whole prefix again, as training does.

Slow, and the reference that a model's own `start` and `step` are held to.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.sequence_model import SequenceModel
from regard.core.state import Step, select_rows


class Prefix(NamedTuple):
    """The state: the source and all tokens so far."""

    source: Int[Tensor, "batch source_length"]
    source_lengths: Int[Tensor, " batch"]
    given: Int[Tensor, "batch taken"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many target tokens each row has taken in."""
        return torch.full_like(self.source_lengths, self.given.shape[1])

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return select_rows(self, index)


class Uncached:
    """The decoding faces of a model, made of its training faces."""

    def __init__(self, model: SequenceModel) -> None:
        self.model = model

    def start(
        self, source: Int[Tensor, "batch source_length"], source_lengths: Int[Tensor, " batch"]
    ) -> Prefix:
        """The state before any target token."""
        return Prefix(source, source_lengths, source[:, :0])

    def step(self, state: Prefix, token: Int[Tensor, " batch"]) -> Step:
        """The logits (batch, target_vocabulary) after one more token, and the new state."""
        state = state._replace(given=torch.cat([state.given, token[:, None]], dim=1))
        hidden = self.model.hidden(*state)
        return Step(self.model.logits(hidden[:, -1]), state)
