"""Recurrent layer: LSTM, GRU or plain tanh, read left to right, or both ways.

    lstm    Hochreiter & Schmidhuber 1997, with forget gates (Gers et al. 2000)
    gru     Cho et al. 2014
    tanh    Elman 1990

Unlike attention its steps wait for one another, and two positions meet after as many steps as lie
between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core.cost import Cost
from regard.core.counter import LSTM_ARITHMETIC
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Step, select_rows
from regard.core.registry import look_up
from regard.layers.cost import SequenceShape, require_shape
from regard.layers.validation import (
    refuse_all_but_padding,
    require_positive,
    require_sequence,
    require_state,
)


class Cell(NamedTuple):
    """One of torch's layers; the counts are for each number of the hidden state.

    `is_one_operator`: its backward gives all gradients, that of the first state asked for or not.
    """

    layer: type[nn.RNNBase]
    gates: int
    functions: int
    arithmetic: int
    has_memory: bool
    is_one_operator: bool


CELLS: dict[str, Cell] = {
    "lstm": Cell(
        nn.LSTM,
        gates=4,
        functions=5,
        arithmetic=LSTM_ARITHMETIC,
        has_memory=True,
        is_one_operator=True,
    ),
    # Two biases a gate, three sums and the reset's product; three for the mean of new and old.
    "gru": Cell(
        nn.GRU, gates=3, functions=3, arithmetic=13, has_memory=False, is_one_operator=False
    ),
    # Two biases and their sum.
    "tanh": Cell(
        nn.RNN, gates=1, functions=1, arithmetic=3, has_memory=False, is_one_operator=False
    ),
}


class RecurrentState(NamedTuple):
    """Where the reading stopped, a row for each direction; only an LSTM has a memory beside it."""

    hidden: Float[Tensor, "batch directions hidden_dim"]
    memory: Float[Tensor, "batch directions memory_dim"]
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return select_rows(self, index)


class Recurrent(nn.Module):
    """From `model_dim` to `hidden_dim` features at every position, twice as many both ways."""

    def __init__(
        self, *, model_dim: int, hidden_dim: int, cell: str = "lstm", bidirectional: bool = False
    ) -> None:
        super().__init__()
        self.cell = look_up("recurrent cell", cell, CELLS)
        require_positive("Recurrent", model_dim=model_dim, hidden_dim=hidden_dim)
        make: Any = self.cell.layer
        self.layer: nn.RNNBase = make(
            model_dim, hidden_dim, batch_first=True, bidirectional=bidirectional
        )

    def forward(
        self,
        x: Float[Tensor, "batch length model_dim"],
        mask: Mask = NO_MASK,
        state: RecurrentState | None = None,
    ) -> Step:
        """Every position's features and the `RecurrentState` at the end of each row.

        Outputs of padded positions are zeros; the backward direction starts at the last real one.
        """
        require_sequence("Recurrent", x, width=self.layer.input_size)
        refuse_all_but_padding("Recurrent", mask)
        state = self.start(x.shape[0]) if state is None else state
        require_state("Recurrent", state, batch_size=x.shape[0])
        before: Any = state.hidden.transpose(0, 1).contiguous()
        if self.cell.has_memory:
            before = (before, state.memory.transpose(0, 1).contiguous())
        if mask.lengths is None:
            output, after = self.layer(x, before)
            taken = torch.full_like(state.position, x.shape[1])
        else:
            output, after = self._packed(x, mask.lengths, before)
            taken = mask.lengths.to(state.position)
        hidden, memory = after if self.cell.has_memory else (after, after[..., :0])
        reached = RecurrentState(
            hidden.transpose(0, 1), memory.transpose(0, 1), state.position + taken
        )
        return Step(output, reached)

    def start(self, batch_size: int) -> RecurrentState:
        """The state before any token."""
        weight = next(self.layer.parameters())
        size = (batch_size, 1 + self.layer.bidirectional, self.layer.hidden_size)
        hidden = weight.new_zeros(size)
        return RecurrentState(
            hidden=hidden,
            memory=hidden if self.cell.has_memory else hidden[..., :0],
            position=torch.zeros(batch_size, dtype=torch.long, device=weight.device),
        )

    def step(self, state: RecurrentState, x: Float[Tensor, "batch new_length model_dim"]) -> Step:
        """The rows that `forward` would give the new tokens."""
        if self.layer.bidirectional:
            raise RegardError(
                "Recurrent with bidirectional=True has no step: what comes later is part of every "
                "output. Build it with bidirectional=False."
            )
        # To forward, None is a start; a step goes on from somewhere.
        require_sequence("Recurrent", x, width=self.layer.input_size)
        require_state("Recurrent", state, batch_size=x.shape[0])
        return self.forward(x, state=state)

    def _packed(self, x: Tensor, lengths: Tensor, before: Any) -> tuple[Tensor, Any]:
        """The layer over real positions only; a row without any keeps the state it had."""
        packed = pack_padded_sequence(
            x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        packed_output, after = self.layer(packed, before)
        output, _ = pad_packed_sequence(packed_output, batch_first=True, total_length=x.shape[1])
        empty = (lengths == 0)[None, :, None]
        if self.cell.has_memory:
            after = tuple(torch.where(empty, b, a) for b, a in zip(before, after, strict=True))
        else:
            after = torch.where(empty, before, after)
        return output.masked_fill((lengths == 0)[:, None, None], 0.0), after

    def first_products(self, batch_size: int) -> int:
        """The products with the first state; its gradient takes as many, and a start wants none."""
        directions, hidden_dim = 1 + self.layer.bidirectional, self.layer.hidden_size
        return 2 * batch_size * directions * self.cell.gates * hidden_dim**2

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes from `start`; n steps, each waiting for the one before."""
        require_shape("Recurrent", shape)
        directions = 1 + self.layer.bidirectional
        hidden_dim = self.layer.hidden_size
        matrix = self.cell.gates * hidden_dim * (self.layer.input_size + hidden_dim)
        outputs = shape.rows * directions * hidden_dim
        kept = 2 if self.cell.has_memory else 1
        products = 2 * shape.rows * directions * matrix
        unasked = 0 if self.cell.is_one_operator else self.first_products(shape.batch_size)
        return Cost(
            products=products,
            functions=self.cell.functions * outputs,
            arithmetic=self.cell.arithmetic * outputs,
            backward_products=2 * products - unasked,
            step_products=0 if self.layer.bidirectional else products // shape.length,
            memory=(1 + self.cell.gates) * outputs,
            parameters=directions * (matrix + 2 * self.cell.gates * hidden_dim),
            state=shape.batch_size * directions * kept * hidden_dim,
            sequential_steps=shape.length,
            longest_path=shape.length,
        )


# A recurrent layer read both ways over padded rows, without packing.
#
# forward     x₁ x₂ x₃ ·  →          padding comes last, so nothing before it sees it backward    x₃
# x₂ x₁ ·  →  put back in order
#
# Each row's real part is turned round, read by a second layer from left to right, and turned back.
# That gives what `Recurrent(bidirectional=True)` gives under a padding mask, at a multiple of its
# speed on a CPU: torch takes packed rows one time step at a time, padded ones in one call. It keeps
# no state at the end.


# Of every place: whether it is real, and where it goes when its row is turned round.
PLACE_ARITHMETIC = 4


class BothWays(nn.Module):
    """From `model_dim` to 2 · `hidden_dim` features at every position; zeros where there is padding."""

    def __init__(self, *, model_dim: int, hidden_dim: int, cell: str = "lstm") -> None:
        super().__init__()
        self.onward = Recurrent(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)
        self.backward_layer = Recurrent(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)

    @property
    def output_dim(self) -> int:
        """Features of a position: those of both directions."""
        return 2 * self.onward.layer.hidden_size

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch length output_dim"]:
        place = torch.arange(x.shape[1], device=x.device)[None]
        real = place < lengths[:, None]
        # Padding stays where it is: the layer reads it last, and its outputs are dropped.
        turned = torch.where(real, lengths[:, None] - 1 - place, place)[:, :, None]
        there = self.onward(x).output
        back = self.backward_layer(x.gather(1, turned.expand_as(x))).output
        both = torch.cat([there, back.gather(1, turned.expand_as(back))], dim=-1)
        return both.masked_fill(~real[:, :, None], 0.0)

    def cost(self, shape: SequenceShape) -> Cost:
        """Two layers, and their outputs without those of padding; neither goes on token by token."""
        total = self.onward.cost(shape) + self.backward_layer.cost(shape)
        total += Cost(arithmetic=shape.rows * (self.output_dim + PLACE_ARITHMETIC))
        return replace(
            total, step_products=0, sequential_steps=shape.length, longest_path=shape.length
        )
