"""Recurrent decoder with attention, in two wirings, or without.

    before the update   h_{t-1} → weights → context c_t → h_t        (Bahdanau et al. 2015)
                        the cell reads [embedding; c_t]; features tanh(W [h_t; c_t; embedding])
    after the update    h_t → weights → context c_t → h̃_t = tanh(W [c_t; h_t])   (Luong et al. 2015)
                        with input feeding the cell reads [embedding; h̃_{t-1}]
    without attention   features h_t; the source is known by the first state alone (Sutskever et al. 2014)

Where no step's input waits for an attention, all steps are one recurrent call and one reading of the
source. Otherwise it goes step by step, with the embeddings' part of the gates computed beforehand.
A decoding step is the same call for one token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.autograd import first_order
from regard.core.cost import AttentionShape, Cost
from regard.core.counter import SOFTMAX_ARITHMETIC
from regard.core.masks import Mask
from regard.core.mechanism import Mechanism, State
from regard.layers.cost import SequenceShape, cost_of, per_position, read_products
from regard.layers.recurrent import Recurrent, RecurrentState
from regard.mechanisms.scores.fused import FusedMechanism

# What a recurrent decoder remembers between tokens, and what it gives back.


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


# A linear map used at every step of a loop, whose weight gradient is one product for all steps.
#
# Left to autograd, a loop adds up one gradient of the size of the weight a step, which takes longer
# than the steps themselves. Here the steps multiply by the weight as a constant. What each step
# starts from passes through one place whose gradient is that of all steps side by side, and there
# the weight's gradient is computed at once.


class _Gathered(torch.autograd.Function):
    """The identity on `starts`; its backward also gives the gradient of the weight."""

    @staticmethod
    def forward(ctx: Any, starts: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        del weight
        ctx.inputs = inputs
        return starts.view_as(starts)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients
        inputs = torch.stack(ctx.inputs, dim=1)
        return gradient, gradient.flatten(0, 1).t() @ inputs.flatten(0, 1), None


class StepProducts:
    """start_t + W input_t for the steps t = 0, 1, … of one loop, in order."""

    def __init__(
        self,
        starts: Float[Tensor, "batch length out_width"],
        weight: Float[Tensor, "out_width width"],
    ) -> None:
        self._inputs: list[Tensor] = []
        gathered: Any = _Gathered.apply(starts, weight, self._inputs)  # type: ignore[no-untyped-call]
        self._starts = iter(gathered.unbind(dim=1))
        self._weight = weight.detach().t()

    def __call__(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch out_width"]:
        """The next step's."""
        self._inputs.append(x.detach())
        return torch.addmm(next(self._starts), x, self._weight)


# One step of a recurrent cell, for loops in which each step's input waits for the one before.
#
# The weights are those of torch's layer, so that the same layer can also be run over a whole
# sequence at once. The part of the input that is known beforehand is multiplied for all steps
# together.


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


class RecurrentDecoder(nn.Module):
    """Given its mechanism, used with one head, or None; the last layer's state is the query."""

    def __init__(
        self,
        *,
        embedding_dim: int,
        hidden_dim: int,
        num_layers: int,
        cell: str,
        mechanism: Mechanism | None,
        attends_before: bool,
        input_feeding: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.mechanism = mechanism
        self.attends_before = attends_before and mechanism is not None
        self.input_feeding = input_feeding
        self.cell_step = CELL_STEPS[cell]
        brought_dim = hidden_dim if self.is_looped else 0
        self.layers = nn.ModuleList(
            Recurrent(
                model_dim=hidden_dim if number else embedding_dim + brought_dim,
                hidden_dim=hidden_dim,
                cell=cell,
            )
            for number in range(num_layers)
        )
        read_dim = 2 * hidden_dim + (embedding_dim if self.attends_before else 0)
        self.readout = None if mechanism is None else nn.Linear(read_dim, hidden_dim)
        self.dropout = nn.Dropout(dropout)

    @property
    def is_looped(self) -> bool:
        """Whether a step's input waits for the attention of the step before."""
        return self.attends_before or self.input_feeding

    def taken_in(
        self, memory: Float[Tensor, "batch source_length hidden_dim"], mask: Mask
    ) -> State | None:
        """The source as the mechanism remembers it: its keys prepared, once for all steps."""
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
    ) -> Decoded:
        decoded = self._step_by_step(x, state) if self.is_looped else self._at_once(x, state)
        position = state.position + x.shape[1]
        return decoded._replace(state=decoded.state._replace(position=position))

    def _at_once(self, x: Tensor, state: RecurrentDecoderState) -> Decoded:
        hidden, memory = [], []
        for number, layer in enumerate(self.layers):
            before = RecurrentState(
                state.hidden[:, number, None], state.memory[:, number, None], state.position
            )
            x, after = layer(self.dropout(x) if number else x, state=before)
            hidden.append(after.hidden)
            memory.append(after.memory)
        reached = state._replace(hidden=torch.cat(hidden, dim=1), memory=torch.cat(memory, dim=1))
        if self.mechanism is None:
            return Decoded(x, x, reached)
        return Decoded(self._attended(x, self._read(reached.source, x)), x, reached)

    def _step_by_step(self, x: Tensor, state: RecurrentDecoderState) -> Decoded:
        # The embeddings of all steps are known beforehand; what layers above the first read is not.
        cells = [
            SteppedCell(module.layer, self.cell_step, known=x[..., :0] if number else x)
            for number, module in enumerate(self.layers)
        ]
        carried = [
            Carried(*both)
            for both in zip(state.hidden.unbind(1), state.memory.unbind(1), strict=True)
        ]
        attend = self._stepped_readout(x) if self.input_feeding else None
        fed, outputs, contexts, features = state.fed, [carried[-1].hidden], [], []
        for _ in range(x.shape[1]):
            if attend is None:
                fed = self._read(state.source, outputs[-1][:, None])[:, 0]
                contexts.append(fed)
            carried = self._updated(cells, fed, carried)
            outputs.append(carried[-1].hidden)
            if attend is not None:
                context = self._read(state.source, outputs[-1][:, None])[:, 0]
                fed = torch.tanh(attend(torch.cat([context, outputs[-1]], dim=1)))
                features.append(fed)
        reached = state._replace(
            hidden=torch.stack([each.hidden for each in carried], dim=1),
            memory=torch.stack([each.memory for each in carried], dim=1),
            fed=state.fed if attend is None else fed,
        )
        hidden = torch.stack(outputs[1:], dim=1)
        if attend is not None:
            return Decoded(torch.stack(features, dim=1), hidden, reached)
        queries, context = torch.stack(outputs[:-1], dim=1), torch.stack(contexts, dim=1)
        return Decoded(self._attended(hidden, context, x), queries, reached)

    def _updated(
        self, cells: list[SteppedCell], x: Tensor, carried: list[Carried]
    ) -> list[Carried]:
        """Every layer one step further."""
        after: list[Carried] = []
        for cell, before in zip(cells, carried, strict=True):
            after.append(cell(self.dropout(after[-1].hidden) if after else x, before))
        return after

    def _stepped_readout(self, x: Tensor) -> StepProducts:
        assert self.readout is not None
        return StepProducts(self.readout.bias.expand(*x.shape[:2], -1), self.readout.weight)

    def _read(self, source: State | None, queries: Tensor) -> Tensor:
        assert self.mechanism is not None
        return self.mechanism.read(source, queries[:, None])[:, 0]

    def _attended(self, hidden: Tensor, context: Tensor, *token: Tensor) -> Tensor:
        assert self.readout is not None
        return torch.tanh(self.readout(torch.cat([context, hidden, *token], dim=-1)))

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes for tokens that read a source of `context_length` from a state."""
        total = self._layers_cost(shape)
        if self.readout is None:
            return total
        written = shape.rows * self.readout.out_features
        fed = Cost(state=shape.batch_size * self.readout.out_features * self.input_feeding)
        tanh = Cost(functions=written, memory=written, sequential_steps=1)
        readout = per_position(cost_of(self.readout, rows=shape.rows), length=shape.length)
        return total + self._reading_cost(shape) + readout + tanh + fed

    def _layers_cost(self, shape: SequenceShape) -> Cost:
        total = Cost()
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Recurrent)
            cost = layer.cost(shape)
            # Here the first state wants a gradient, and what is fed back first, being zeros, none.
            fed_first = self.input_feeding and number == 0
            unasked = layer.first_products(shape.batch_size) if fed_first else 0
            total += replace(cost, backward_products=2 * cost.products - unasked)
        return total

    def _reading_cost(self, shape: SequenceShape) -> Cost:
        """All readings of the source, whose keys are prepared once."""
        assert self.mechanism is not None
        assert self.readout is not None
        assert shape.context_length is not None
        width, keys = self.readout.out_features, shape.context_length
        readings = shape.length if self.is_looped else 1
        one = AttentionShape(
            batch_size=shape.batch_size,
            query_length=shape.length // readings,
            key_length=keys,
            key_dim=width,
            value_dim=width,
            query_dim=width,
        )
        cost, step = self.mechanism.cost(one), read_products(self.mechanism, one)
        products = self.mechanism.cost(replace(one, query_length=0)).products + shape.length * step
        if isinstance(self.mechanism, FusedMechanism):
            # A state is read in the open: the queries are scaled, and nothing is computed again.
            arithmetic = shape.rows * (width + SOFTMAX_ARITHMETIC * keys)
            backward = 2 * products
        else:
            arithmetic = readings * cost.arithmetic
            # Some scores have gradients that are no products.
            backward = 2 * products - readings * (2 * cost.products - cost.backward_products)
        return replace(
            cost,
            products=products,
            functions=readings * cost.functions,
            arithmetic=arithmetic,
            backward_products=backward,
            step_products=step,
            sequential_steps=readings * cost.sequential_steps,
        )
