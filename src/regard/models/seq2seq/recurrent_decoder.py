"""Recurrent decoder with Bahdanau- or Luong-style attention, or without.

    bahdanau            h_{t-1} → weights → context c_t → h_t        (Bahdanau et al. 2015)
                        cell input [embedding; c_t]; features tanh(W [h_t; c_t; embedding])
    luong               h_t → weights → context c_t → h̃_t = tanh(W [c_t; h_t])   (Luong et al. 2015)
                        with input feeding the cell input is [embedding; h̃_{t-1}]
    without attention   features h_t; the initial state encodes the source (Sutskever et al. 2014)

If no step's input depends on an attention, all steps are one recurrent call and one attention call.
Otherwise the steps run in a loop, with the embeddings' part of the gates computed in advance. A decoding
step is the same call for one token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.masks import Mask
from regard.core.mechanism import Mechanism, State, first_order_only
from regard.layers.recurrent import Recurrent, RecurrentState


class RecurrentDecoderState(NamedTuple):
    """Decoder state: hidden states of the layers, the features fed back, and the cached source."""

    hidden: Float[Tensor, "batch layers hidden_dim"]
    memory: Float[Tensor, "batch layers memory_dim"]
    input_feed: Float[Tensor, "batch fed_dim"]
    source: State | None
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return self._replace(
            hidden=self.hidden.index_select(0, index),
            memory=self.memory.index_select(0, index),
            input_feed=self.input_feed.index_select(0, index),
            source=None if self.source is None else self.source.select(index),
            position=self.position.index_select(0, index),
        )


class DecoderOutput(NamedTuple):
    """Features and attention queries of every position, and the final state."""

    features: Float[Tensor, "batch length hidden_dim"]
    queries: Float[Tensor, "batch length hidden_dim"]
    state: RecurrentDecoderState


class _SingleWeightGradient(torch.autograd.Function):
    """The identity on `offsets`; its backward also computes the gradient of the weight."""

    @staticmethod
    def forward(ctx: Any, offsets: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        del weight
        ctx.inputs = inputs
        return offsets.view_as(offsets)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients
        inputs = torch.stack(ctx.inputs, dim=1)
        return gradient, gradient.flatten(0, 1).t() @ inputs.flatten(0, 1), None


class StepwiseLinear:
    """offset_t + W input_t for the steps t = 0, 1, … of one loop, in order.

    Left to autograd, a loop accumulates one weight-sized gradient per step, which takes longer than the
    steps themselves. Here the steps use W as a constant, and its gradient is one product over all steps.
    """

    def __init__(
        self,
        offsets: Float[Tensor, "batch length out_width"],
        weight: Float[Tensor, "out_width width"],
    ) -> None:
        self._inputs: list[Tensor] = []
        tracked: Any = _SingleWeightGradient.apply(offsets, weight, self._inputs)  # type: ignore[no-untyped-call]
        self._offsets = iter(tracked.unbind(dim=1))
        self._weight = weight.detach().t()

    def __call__(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch out_width"]:
        """The output of the next step."""
        self._inputs.append(x.detach())
        return torch.addmm(next(self._offsets), x, self._weight)


class CellState(NamedTuple):
    """Recurrent state of one layer; only an LSTM has a cell memory beside the hidden state."""

    hidden: Float[Tensor, "batch hidden_dim"]
    memory: Float[Tensor, "batch memory_dim"]


def lstm_step(
    from_input: Float[Tensor, "batch gates"],
    from_hidden: Float[Tensor, "batch gates"],
    before: CellState,
) -> CellState:
    """One LSTM step; gates in PyTorch's order: input, forget, cell, output."""
    input_gate, forget_gate, new, output_gate = (from_input + from_hidden).chunk(4, dim=1)
    memory = forget_gate.sigmoid() * before.memory + input_gate.sigmoid() * new.tanh()
    return CellState(output_gate.sigmoid() * memory.tanh(), memory)


def gru_step(
    from_input: Float[Tensor, "batch gates"],
    from_hidden: Float[Tensor, "batch gates"],
    before: CellState,
) -> CellState:
    """One GRU step; gates in PyTorch's order: reset, update, new."""
    width = before.hidden.shape[1]
    sizes = [2 * width, width]
    gates_input, new_input = from_input.split(sizes, dim=1)
    gates_hidden, new_hidden = from_hidden.split(sizes, dim=1)
    reset, update = (gates_input + gates_hidden).sigmoid().chunk(2, dim=1)
    new = (new_input + reset * new_hidden).tanh()
    return CellState(torch.lerp(new, before.hidden, update), before.memory)


CellStep = Callable[[Tensor, Tensor, CellState], CellState]

CELL_STEPS: dict[str, CellStep] = {
    "lstm": lstm_step,
    "gru": gru_step,
}


class StepwiseCell:
    """Steps through a PyTorch recurrent layer; the input of step t is [known_t; x].

    The product with the known part is computed for all steps together.
    """

    def __init__(
        self, layer: Any, cell_step: CellStep, *, known: Float[Tensor, "batch length known_dim"]
    ) -> None:
        known_dim = known.shape[2]
        known_weight = layer.weight_ih_l0[:, :known_dim]
        from_known = F.linear(known, known_weight, layer.bias_ih_l0)
        self._from_input = StepwiseLinear(from_known, layer.weight_ih_l0[:, known_dim:])
        bias = layer.bias_hh_l0.expand(*known.shape[:2], -1)
        self._from_hidden = StepwiseLinear(bias, layer.weight_hh_l0)
        self._cell_step = cell_step

    def __call__(self, x: Float[Tensor, "batch input_dim"], before: CellState) -> CellState:
        """The state after the next step."""
        return self._cell_step(self._from_input(x), self._from_hidden(before.hidden), before)


class RecurrentDecoder(nn.Module):
    """Recurrent layers and a single-head mechanism, or None; the last layer's state is the query."""

    def __init__(
        self,
        *,
        embedding_dim: int,
        hidden_dim: int,
        num_layers: int,
        cell: str,
        mechanism: Mechanism | None,
        attends_before_update: bool,
        input_feeding: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.mechanism = mechanism
        self.attends_before_update = attends_before_update and mechanism is not None
        self.input_feeding = input_feeding
        self.cell_step = CELL_STEPS[cell]
        context_dim = hidden_dim if self.is_sequential else 0
        self.layers = nn.ModuleList(
            Recurrent(
                model_dim=hidden_dim if number else embedding_dim + context_dim,
                hidden_dim=hidden_dim,
                cell=cell,
            )
            for number in range(num_layers)
        )
        readout_dim = 2 * hidden_dim + (embedding_dim if self.attends_before_update else 0)
        self.readout = None if mechanism is None else nn.Linear(readout_dim, hidden_dim)
        self.dropout = nn.Dropout(dropout)

    @property
    def is_sequential(self) -> bool:
        """Whether a step's input depends on the attention of the step before."""
        return self.attends_before_update or self.input_feeding

    def encode_source(
        self, memory: Float[Tensor, "batch source_length hidden_dim"], mask: Mask
    ) -> State | None:
        """Cache the keys and values of the source, once for all steps."""
        if self.mechanism is None:
            return None
        empty = self.mechanism.start(
            batch_size=memory.shape[0],
            num_kv_heads=1,
            key_dim=memory.shape[2],
            value_dim=memory.shape[2],
            dtype=memory.dtype,
            device=memory.device,
        )
        return self.mechanism.extend(empty, memory[:, None], memory[:, None], mask)

    def forward(
        self, x: Float[Tensor, "batch length embedding_dim"], state: RecurrentDecoderState
    ) -> DecoderOutput:
        decoded = self._sequential(x, state) if self.is_sequential else self._parallel(x, state)
        position = state.position + x.shape[1]
        return decoded._replace(state=decoded.state._replace(position=position))

    def _parallel(self, x: Tensor, state: RecurrentDecoderState) -> DecoderOutput:
        hidden, memory = [], []
        for number, layer in enumerate(self.layers):
            before = RecurrentState(
                state.hidden[:, number, None], state.memory[:, number, None], state.position
            )
            x, after = layer(self.dropout(x) if number else x, state=before)
            hidden.append(after.hidden)
            memory.append(after.memory)
        state = state._replace(hidden=torch.cat(hidden, dim=1), memory=torch.cat(memory, dim=1))
        if self.mechanism is None:
            return DecoderOutput(x, x, state)
        return DecoderOutput(self._combine(x, self._attend(state.source, x)), x, state)

    def _sequential(self, x: Tensor, state: RecurrentDecoderState) -> DecoderOutput:
        # The embeddings of all steps are known in advance; the inputs of higher layers are not.
        cells = [
            StepwiseCell(module.layer, self.cell_step, known=x[..., :0] if number else x)
            for number, module in enumerate(self.layers)
        ]
        layer_states = [
            CellState(*both)
            for both in zip(state.hidden.unbind(1), state.memory.unbind(1), strict=True)
        ]
        readout = self._stepwise_readout(x) if self.input_feeding else None
        input_feed, outputs, contexts, features = (
            state.input_feed,
            [layer_states[-1].hidden],
            [],
            [],
        )
        for _ in range(x.shape[1]):
            if readout is None:
                input_feed = self._attend(state.source, outputs[-1][:, None])[:, 0]
                contexts.append(input_feed)
            layer_states = self._update_layers(cells, input_feed, layer_states)
            outputs.append(layer_states[-1].hidden)
            if readout is not None:
                context = self._attend(state.source, outputs[-1][:, None])[:, 0]
                input_feed = torch.tanh(readout(torch.cat([context, outputs[-1]], dim=1)))
                features.append(input_feed)
        final_state = state._replace(
            hidden=torch.stack([layer.hidden for layer in layer_states], dim=1),
            memory=torch.stack([layer.memory for layer in layer_states], dim=1),
            input_feed=state.input_feed if readout is None else input_feed,
        )
        hidden = torch.stack(outputs[1:], dim=1)
        if readout is not None:
            return DecoderOutput(torch.stack(features, dim=1), hidden, final_state)
        queries, context = torch.stack(outputs[:-1], dim=1), torch.stack(contexts, dim=1)
        return DecoderOutput(self._combine(hidden, context, x), queries, final_state)

    def _update_layers(
        self, cells: list[StepwiseCell], x: Tensor, layer_states: list[CellState]
    ) -> list[CellState]:
        """One step of every layer."""
        after: list[CellState] = []
        for cell, before in zip(cells, layer_states, strict=True):
            after.append(cell(self.dropout(after[-1].hidden) if after else x, before))
        return after

    def _stepwise_readout(self, x: Tensor) -> StepwiseLinear:
        assert self.readout is not None
        return StepwiseLinear(self.readout.bias.expand(*x.shape[:2], -1), self.readout.weight)

    def _attend(self, source: State | None, queries: Tensor) -> Tensor:
        assert self.mechanism is not None
        return self.mechanism.read(source, queries[:, None])[:, 0]

    def _combine(self, hidden: Tensor, context: Tensor, *token: Tensor) -> Tensor:
        assert self.readout is not None
        return torch.tanh(self.readout(torch.cat([context, hidden, *token], dim=-1)))
