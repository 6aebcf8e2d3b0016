"""Base class of linear recurrences (retention, gated linear attention, delta rule) and their chunked scan.

    S_t = update(S_{t−1}, k_t, v_t),   out_t = q_t S_t

The state is one key_dim × value_dim matrix per head. Unlike kernel attention there is no denominator, so
rows need not sum to one and weights may be negative; masking is always causal. A subclass defines the
parallel form of a chunk (`chunk_step`) and its attention weights (`pair_weights`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Capabilities,
    Key,
    Mechanism,
    Output,
    Query,
    Value,
    Weights,
    first_order_only,
    repeat_heads,
    select_rows,
)
from regard.core.options import PositiveInt, validated

Tensors = tuple[Tensor, ...]
Control = Float[Tensor, "batch kv_heads key_length control_dim"]
ChunkStep = Callable[[Tensors, Tensors], tuple[Tensor, Tensors]]


def chunked_scan(step: ChunkStep, state: Tensors, sequences: Tensors, *, chunk_size: int) -> Tensor:
    """The concatenated outputs of `step(state, chunk) -> (output, state)`, along dimension 2.

    Forward saves only the inputs. Backward recomputes the state before each chunk, then differentiates
    one chunk at a time, last to first: memory is linear in length, and only one chunk's intermediate
    tensors are in memory. Gradients flow to the sequences; the first state is a constant.
    """
    output: Tensor = _Scan.apply(step, state, chunk_size, *sequences)  # type: ignore[no-untyped-call]
    return output


def _chunks(sequences: Tensors, chunk_size: int) -> list[Tensors]:
    return list(zip(*(sequence.split(chunk_size, dim=2) for sequence in sequences), strict=True))


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, step: ChunkStep, state: Tensors, chunk_size: int, *sequences: Tensor
    ) -> Tensor:
        ctx.step, ctx.state, ctx.chunk_size = step, state, chunk_size
        ctx.save_for_backward(*sequences)
        outputs = []
        for chunk in _chunks(sequences, chunk_size):
            output, state = step(state, chunk)
            outputs.append(output)
        return torch.cat(outputs, dim=2)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        chunks = _chunks(ctx.saved_tensors, ctx.chunk_size)
        states = [ctx.state]
        for chunk in chunks[:-1]:
            states.append(ctx.step(states[-1], chunk)[1])
        gradients = [torch.zeros_like(sequence) for sequence in ctx.saved_tensors]
        pieces = _chunks(tuple(gradients), ctx.chunk_size)
        state_gradient = tuple(torch.zeros_like(part) for part in ctx.state)
        for index in reversed(range(len(chunks))):
            before = tuple(part.detach().requires_grad_() for part in states.pop())
            chunk = tuple(part.detach().requires_grad_() for part in chunks[index])
            with torch.enable_grad():
                output, after = ctx.step(before, chunk)
            found = torch.autograd.grad(
                (output, *after),
                (*before, *chunk),
                (gradient.split(ctx.chunk_size, dim=2)[index], *state_gradient),
                allow_unused=True,
                materialize_grads=True,
            )
            state_gradient = found[: len(before)]
            for piece, part in zip(pieces[index], found[len(before) :], strict=True):
                piece.copy_(part)
        return (None, None, None, *gradients)


class MemoryState(NamedTuple):
    """The decoding state: one key_dim × value_dim matrix per head."""

    memory: Float[Tensor, "batch kv_heads key_dim value_dim"]
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        return select_rows(self, index)


class RecurrentMechanism(Mechanism):
    """A linear recurrence, computed in chunks."""

    @validated
    def __init__(self, *, chunk_size: PositiveInt = 64) -> None:
        super().__init__()
        self.chunk_size = chunk_size

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            roles=frozenset({"self"}),
            masks=frozenset({"causal", "padding"}),
            requires_causal=True,
            rows_sum_to_one=False,
            nonnegative=False,
            position_aware=True,
        )

    @abstractmethod
    def control(self, key: Key, *_: Any, **gates: Any) -> Control:
        """The per-key input of the update, such as a log decay; 0 must leave the memory unchanged."""

    @abstractmethod
    def chunk_step(self, state: Tensors, chunk: Tensors) -> tuple[Tensor, Tensors]:
        """From (memory,) and (query, key, value, control) of a chunk to its output and new (memory,)."""

    @abstractmethod
    def pair_weights(self, query: Query, key: Key, control: Control) -> Weights:
        """The attention weights of a whole sequence."""

    def chunk_cost(self, length: int, key_dim: int, value_dim: int) -> Cost:
        """The cost of `chunk_step` for one head and a chunk of this length, if the subclass declares it.

        `Cost.backward_matmul_flops` does not include recomputing the forward pass.
        """
        raise NotImplementedError

    @property
    def declares_cost(self) -> bool:
        own, base = type(self), RecurrentMechanism
        return own.cost is not base.cost or own.chunk_cost is not base.chunk_cost

    def memory_heads(self, num_kv_heads: int) -> int:
        """The number of memories in the decoding state: by default one per key/value head."""
        return num_kv_heads

    def prepare(self, key: Key) -> Key:
        """Transform the keys; by default they are unchanged."""
        return key

    def forward(
        self, query: Query, key: Key, value: Value, mask: Mask = NO_MASK, **gates: Tensor
    ) -> Output:
        self.validate_call(query, key, value, mask)
        rows = min(query.shape[2], key.shape[2])
        ahead = query.shape[2] - rows
        if rows == 0:
            return value.new_zeros(*query.shape[:3], value.shape[-1])
        aligned, key, control = self._align(query, key, mask, gates)
        value = repeat_heads(value, query.shape[1])
        memory = value.new_zeros(*value.shape[:2], key.shape[-1], value.shape[-1])
        output = chunked_scan(
            self.chunk_step, (memory,), (aligned, key, value, control), chunk_size=self.chunk_size
        )
        # Queries before the first key have no key to attend to.
        return functional.pad(output[:, :, -rows:], (0, 0, ahead, 0))

    def weights(self, query: Query, key: Key, mask: Mask = NO_MASK, **gates: Tensor) -> Weights:
        self.validate_call(query, key, None, mask)
        rows = min(query.shape[2], key.shape[2])
        ahead = query.shape[2] - rows
        if rows == 0:
            return query.new_zeros(*query.shape[:3], key.shape[2])
        weights = self.pair_weights(*self._align(query, key, mask, gates))
        return functional.pad(weights[:, :, -rows:], (0, 0, ahead, 0))

    def _align(
        self, query: Tensor, key: Tensor, mask: Mask, gates: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One query per key, aligned at the end; and the keys and controls of each head."""
        key, control = self._keys_and_control(key, mask, gates, num_heads=query.shape[1])
        # A negative pad drops the queries before the first key.
        before = key.shape[2] - query.shape[2]
        return functional.pad(self._scaled(query), (0, 0, before, 0)), key, control

    def _keys_and_control(
        self, key: Tensor, mask: Mask, gates: dict[str, Tensor], *, num_heads: int
    ) -> tuple[Tensor, Tensor]:
        """The prepared keys and their controls, per head; zeros where keys are padding."""
        key = repeat_heads(key, num_heads)
        head_gates = {name: repeat_heads(gate, num_heads) for name, gate in gates.items()}
        prepared, control = self.prepare(key), self.control(key, **head_gates)
        if mask.lengths is None:
            return prepared, control
        keep = mask.keep(key.shape[2])[:, None, :, None]
        return prepared * keep, control * keep

    def _scaled(self, query: Tensor) -> Tensor:
        return query * query.shape[-1] ** -0.5

    def empty_state(self, key: Key, value: Value) -> MemoryState:
        batch_size, kv_heads, _, key_dim = key.shape
        return MemoryState(
            memory=key.new_zeros(batch_size, self.memory_heads(kv_heads), key_dim, value.shape[-1]),
            position=torch.zeros(batch_size, dtype=torch.long, device=key.device),
        )

    def extend(
        self, state: MemoryState, key: Key, value: Value, mask: Mask = NO_MASK, **gates: Tensor
    ) -> MemoryState:
        self.validate_extend(key, value, mask)
        if key.shape[2] == 0:
            return state
        heads = state.memory.shape[1]
        key, control = self._keys_and_control(key, mask, gates, num_heads=heads)
        value = repeat_heads(value, heads)
        memory: Tensors = (state.memory,)
        pieces = zip(
            *(part.split(self.chunk_size, 2) for part in (key, value, control)), strict=True
        )
        for keys, values, controls in pieces:
            # Only the new memory is used, so the query does not matter.
            memory = self.chunk_step(memory, (keys, keys, values, controls))[1]
        taken = key.shape[2] if mask.lengths is None else mask.lengths.to(state.position)
        return MemoryState(memory=memory[0], position=state.position + taken)

    def read(self, state: MemoryState, query: Query) -> Output:
        return self._scaled(query) @ repeat_heads(state.memory, query.shape[1])

    def cost(self, shape: AttentionShape) -> Cost:
        if not self.declares_cost:
            return super().cost(shape)
        chunk_size = max(1, min(self.chunk_size, shape.key_length))
        whole, rest = divmod(shape.key_length, chunk_size)
        full = self.chunk_cost(chunk_size, shape.key_dim, shape.value_dim)
        last = self.chunk_cost(rest, shape.key_dim, shape.value_dim) if rest else Cost()
        memories = shape.batch_size * self.memory_heads(shape.num_kv_heads or shape.num_heads)
        width = 2 * shape.value_dim + 3 * shape.key_dim
        read = 2 * shape.batch_heads * shape.key_dim * shape.value_dim
        matmul_flops = whole * full.matmul_flops + last.matmul_flops
        # Backward recomputes every chunk, and before that all but the last one for their states.
        final = last if rest else full
        again = 2 * matmul_flops - final.matmul_flops if shape.key_length else 0
        differentiated = whole * full.backward_matmul_flops + last.backward_matmul_flops
        # Queries are scaled first.
        scaled = shape.query_length * shape.key_dim if shape.key_length else 0
        return Cost(
            matmul_flops=shape.batch_heads * matmul_flops,
            transcendental_ops=shape.batch_heads
            * (whole * full.transcendental_ops + last.transcendental_ops),
            elementwise_ops=shape.batch_heads
            * (scaled + whole * full.elementwise_ops + last.elementwise_ops),
            backward_matmul_flops=shape.batch_heads * (again + differentiated),
            step_matmul_flops=memories
            * self.chunk_cost(1, shape.key_dim, shape.value_dim).matmul_flops
            + read,
            memory=shape.batch_heads * shape.key_length * width + shape.batch_heads * full.memory,
            parameters=self.num_parameters,
            state=memories * shape.key_dim * shape.value_dim,
            sequential_steps=whole + bool(rest),
            max_path_length=1,
        )
