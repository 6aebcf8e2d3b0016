"""One step of a recurrent cell, for loops in which each step's input waits for the one before.

The weights are those of torch's layer, so that the same layer can also be run over a whole sequence
at once. The part of the input that is known beforehand is multiplied for all steps together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.models.step_products import StepProducts


class Carried(NamedTuple):
    """What a cell hands to its next step; only an LSTM has a memory beside the hidden state."""

    hidden: Float[Tensor, "batch hidden_dim"]
    memory: Float[Tensor, "batch memory_dim"]


def lstm_step(
    from_input: Float[Tensor, "batch gates"],
    from_hidden: Float[Tensor, "batch gates"],
    before: Carried,
) -> Carried:
    """Gates in torch's order: in, forget, new, out."""
    enter, forget, new, leave = (from_input + from_hidden).chunk(4, dim=1)
    memory = forget.sigmoid() * before.memory + enter.sigmoid() * new.tanh()
    return Carried(leave.sigmoid() * memory.tanh(), memory)


def gru_step(
    from_input: Float[Tensor, "batch gates"],
    from_hidden: Float[Tensor, "batch gates"],
    before: Carried,
) -> Carried:
    """Gates in torch's order: reset, update, new."""
    width = before.hidden.shape[1]
    sizes = [2 * width, width]
    switch_input, new_input = from_input.split(sizes, dim=1)
    switch_hidden, new_hidden = from_hidden.split(sizes, dim=1)
    reset, update = (switch_input + switch_hidden).sigmoid().chunk(2, dim=1)
    new = (new_input + reset * new_hidden).tanh()
    return Carried(torch.lerp(new, before.hidden, update), before.memory)


CellStep = Callable[[Tensor, Tensor, Carried], Carried]

CELL_STEPS: dict[str, CellStep] = {
    "lstm": lstm_step,
    "gru": gru_step,
}


class SteppedCell:
    """A layer of torch's taken step by step; an input is [known_t; what the loop brings]."""

    def __init__(
        self, layer: Any, cell_step: CellStep, *, known: Float[Tensor, "batch length known_dim"]
    ) -> None:
        known_dim = known.shape[2]
        known_weight = layer.weight_ih_l0[:, :known_dim]
        from_known = F.linear(known, known_weight, layer.bias_ih_l0)
        self._from_input = StepProducts(from_known, layer.weight_ih_l0[:, known_dim:])
        bias = layer.bias_hh_l0.expand(*known.shape[:2], -1)
        self._from_hidden = StepProducts(bias, layer.weight_hh_l0)
        self._cell_step = cell_step

    def __call__(self, x: Float[Tensor, "batch brought_dim"], before: Carried) -> Carried:
        """The next step."""
        return self._cell_step(self._from_input(x), self._from_hidden(before.hidden), before)
