"""Recurrent layers (RNNs): LSTM, GRU or tanh cells, unidirectional or bidirectional.

    lstm    Hochreiter & Schmidhuber 1997, with forget gates (Gers et al. 2000)
    gru     Cho et al. 2014
    tanh    Elman 1990

Unlike attention, the steps are sequential, and the maximum path length is the sequence length.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core.cost import Cost
from regard.core.counter import LSTM_OPS
from regard.core.counting import Example
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Step, select_rows
from regard.core.options import PositiveInt, validated
from regard.core.registry import lookup
from regard.layers.cost import SequenceShape, layer_cost, validate_sequence_shape
from regard.layers.validation import validate_padding_only, validate_sequence, validate_state


class Cell(NamedTuple):
    """One of torch's recurrent layers; operation counts are per number of the hidden state.

    `is_one_operator`: its backward computes all gradients, also an unneeded one of the first state.
    """

    layer: type[nn.RNNBase]
    gates: int
    transcendental_ops: int
    elementwise_ops: int
    has_memory: bool = False
    is_one_operator: bool = False


CELLS: dict[str, Cell] = {
    "lstm": Cell(
        nn.LSTM,
        gates=4,
        transcendental_ops=5,
        elementwise_ops=LSTM_OPS,
        has_memory=True,
        is_one_operator=True,
    ),
    # Two biases per gate, three sums and the reset's product; three for the mean of new and old.
    "gru": Cell(nn.GRU, gates=3, transcendental_ops=3, elementwise_ops=13),
    # Two biases and their sum.
    "tanh": Cell(nn.RNN, gates=1, transcendental_ops=1, elementwise_ops=3),
}


class RecurrentState(NamedTuple):
    """The hidden state after the last token, per direction, and an LSTM's memory cell."""

    hidden: Float[Tensor, "batch directions hidden_dim"]
    memory: Float[Tensor, "batch directions memory_dim"]
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        return select_rows(self, index)


class Recurrent(nn.Module):
    """From `model_dim` to `hidden_dim` features per position, twice as many if bidirectional."""

    @validated
    def __init__(
        self,
        *,
        model_dim: PositiveInt,
        hidden_dim: PositiveInt,
        cell: str = "lstm",
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.cell = lookup("recurrent cell", cell, CELLS)
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
        """The features of every position, and the `RecurrentState` at the end of each row.

        Outputs at padding are zeros; the backward direction starts at the last token.
        """
        validate_sequence("Recurrent", x, width=self.layer.input_size)
        validate_padding_only("Recurrent", mask, batch_size=x.shape[0])
        return self._run(x, mask, self.start(x.shape[0]) if state is None else state)

    def _run(self, x: Tensor, mask: Mask, state: RecurrentState) -> Step:
        validate_state("Recurrent", state, batch_size=x.shape[0])
        initial: Any = state.hidden.transpose(0, 1).contiguous()
        if self.cell.has_memory:
            initial = (initial, state.memory.transpose(0, 1).contiguous())
        if mask.lengths is None:
            output, final = self.layer(x, initial)
            taken = torch.full_like(state.position, x.shape[1])
        else:
            output, final = self._packed(x, mask.lengths, initial)
            taken = mask.lengths.to(state.position)
        hidden, memory = final if self.cell.has_memory else (final, final[..., :0])
        final_state = RecurrentState(
            hidden.transpose(0, 1), memory.transpose(0, 1), state.position + taken
        )
        return Step(output, final_state)

    def start(self, batch_size: int) -> RecurrentState:
        """An all-zero state."""
        weight = next(self.layer.parameters())
        size = (batch_size, 1 + self.layer.bidirectional, self.layer.hidden_size)
        hidden = weight.new_zeros(size)
        return RecurrentState(
            hidden=hidden,
            memory=hidden if self.cell.has_memory else hidden[..., :0],
            position=torch.zeros(batch_size, dtype=torch.long, device=weight.device),
        )

    def step(self, state: RecurrentState, x: Float[Tensor, "batch new_length model_dim"]) -> Step:
        """The output of `forward` for new tokens, continued from `state`."""
        if self.layer.bidirectional:
            raise RegardError(
                "Recurrent with bidirectional=True has no step: every output depends on later tokens. "
                "Build it with bidirectional=False."
            )
        validate_sequence("Recurrent", x, width=self.layer.input_size)
        return self._run(x, NO_MASK, state)

    def _packed(self, x: Tensor, lengths: Tensor, initial: Any) -> tuple[Tensor, Any]:
        """The layer over a packed sequence; a row of length 0 keeps its state."""
        packed = pack_padded_sequence(
            x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        packed_output, final = self.layer(packed, initial)
        output, _ = pad_packed_sequence(packed_output, batch_first=True, total_length=x.shape[1])
        empty = (lengths == 0)[None, :, None]
        if self.cell.has_memory:
            final = tuple(torch.where(empty, i, f) for i, f in zip(initial, final, strict=True))
        else:
            final = torch.where(empty, initial, final)
        return output.masked_fill((lengths == 0)[:, None, None], 0.0), final

    def initial_state_flops(self, batch_size: int) -> int:
        """The matmul FLOPs with the initial state; the gradient of that state takes as many."""
        directions, hidden_dim = 1 + self.layer.bidirectional, self.layer.hidden_size
        return 2 * batch_size * directions * self.cell.gates * hidden_dim**2

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward` from `start`."""
        validate_sequence_shape("Recurrent", shape)
        directions = 1 + self.layer.bidirectional
        hidden_dim = self.layer.hidden_size
        matrix = self.cell.gates * hidden_dim * (self.layer.input_size + hidden_dim)
        outputs = shape.positions * directions * hidden_dim
        kept = 2 if self.cell.has_memory else 1
        matmul_flops = 2 * shape.positions * directions * matrix
        # The initial state of `start` needs no gradient.
        unneeded = 0 if self.cell.is_one_operator else self.initial_state_flops(shape.batch_size)
        return Cost(
            matmul_flops=matmul_flops,
            transcendental_ops=self.cell.transcendental_ops * outputs,
            elementwise_ops=self.cell.elementwise_ops * outputs,
            backward_matmul_flops=2 * matmul_flops - unneeded,
            step_matmul_flops=0 if self.layer.bidirectional else matmul_flops // shape.length,
            memory=(1 + self.cell.gates) * outputs,
            parameters=directions * (matrix + 2 * self.cell.gates * hidden_dim),
            state=shape.batch_size * directions * kept * hidden_dim,
            sequential_steps=shape.length,
            max_path_length=shape.length,
        )


class BidirectionalRecurrent(nn.Module):
    """A bidirectional layer over padded rows, without packing; 2 · `hidden_dim` features per position.

    forward     x₁ x₂ x₃ ·  →
    backward    x₃ x₂ x₁ ·  →  reversed again

    The tokens of each row are reversed, run through a second layer, and reversed back. The result is
    that of `Recurrent(bidirectional=True)` with a padding mask, several times faster on a CPU, where
    torch processes packed rows one time step at a time. It returns no state; outputs at padding are 0.
    """

    def __init__(self, *, model_dim: int, hidden_dim: int, cell: str = "lstm") -> None:
        super().__init__()
        self.onward = Recurrent(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)
        self.backward_layer = Recurrent(model_dim=model_dim, hidden_dim=hidden_dim, cell=cell)

    @property
    def output_dim(self) -> int:
        """The features of both directions."""
        return 2 * self.onward.layer.hidden_size

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch length output_dim"]:
        position = torch.arange(x.shape[1], device=x.device)[None]
        is_token = position < lengths[:, None]
        # Padding stays last, where it affects no other position.
        reverse = torch.where(is_token, lengths[:, None] - 1 - position, position)[:, :, None]
        forward = self.onward(x).output
        backward = self.backward_layer(x.gather(1, reverse.expand_as(x))).output
        both = torch.cat([forward, backward.gather(1, reverse.expand_as(backward))], dim=-1)
        return both.masked_fill(~is_token[:, :, None], 0.0)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted; there is no step."""

        def prepare(layer: BidirectionalRecurrent) -> Example:
            x = shape.vectors(layer.onward.layer.input_size)
            lengths = torch.full((shape.batch_size,), shape.length)
            return Example(partial(layer, x, lengths), (x,))

        return layer_cost(self, shape, prepare, max_path_length=lambda: shape.length)
