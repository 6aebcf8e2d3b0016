"""The family of linear recurrences: a matrix-valued memory that decays, is gated, or is corrected.

    S_t = update(S_{t−1}, k_t, v_t),   out_t = q_t S_t

Unlike kernel attention there is no denominator, so rows need not sum to one and weights may be negative;
and since each step forgets or overwrites, a query can only read the past. A member says how a chunk is
processed in parallel (`chunk_step`) and what weights that implies (`pair_weights`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from regard.core.autograd import first_order
from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Capabilities,
    Mechanism,
    refuse_misextended,
    repeat_heads,
    select_rows,
)

# A recurrence over chunks of a sequence, trained without storing its states.
#
# `step(state, chunk) -> (output, state)` handles one chunk of every sequence in parallel form.
# Forward runs it along the sequence and keeps only the inputs. Backward runs it again to find the
# state before each chunk, then walks back, differentiating one chunk at a time: memory is linear in
# length, and the intermediate tensors of only one chunk are alive at any moment.
#
# The causal kernel sums have a scan of their own, because their state is a plain sum and needs no
# replay.


Tensors = tuple[Tensor, ...]
ChunkStep = Callable[[Tensors, Tensors], tuple[Tensor, Tensors]]


def chunked_scan(step: ChunkStep, state: Tensors, sequences: Tensors, *, chunk_size: int) -> Tensor:
    """The outputs of all chunks, joined. Sequences and outputs run along dimension 2.

    Gradients flow to the sequences; the first state is a constant.
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
    @first_order
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
    """The memory after the tokens taken in, a key-by-value matrix a head."""

    memory: Float[Tensor, "batch kv_heads key_dim value_dim"]
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return select_rows(self, index)


class RecurrentMechanism(Mechanism):
    """A linear recurrence, run in chunks."""

    def __init__(self, *, chunk_size: int) -> None:
        super().__init__()
        if chunk_size < 1:
            raise RegardError(f"{self.name} has chunk_size={chunk_size}; it must be 1 or more.")
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
    def control(
        self, key: Float[Tensor, "batch kv_heads length key_dim"], *_: Any, **extras: Any
    ) -> Float[Tensor, "batch kv_heads length control_dim"]:
        """What steers the memory at each key. Zero must mean: leave the memory as it is."""

    @abstractmethod
    def chunk_step(self, state: Tensors, chunk: Tensors) -> tuple[Tensor, Tensors]:
        """(memory,) and (query, key, value, control) of a chunk: its output, and (memory,) after it."""

    @abstractmethod
    def pair_weights(
        self,
        query: Float[Tensor, "batch heads length key_dim"],
        key: Float[Tensor, "batch heads length key_dim"],
        control: Float[Tensor, "batch heads length control_dim"],
    ) -> Float[Tensor, "batch heads length length"]:
        """The weight of every value in every output."""

    @abstractmethod
    def chunk_cost(self, length: int, key_dim: int, value_dim: int) -> Cost:
        """What `chunk_step` takes for one head and a chunk of this length, its keys prepared.

        `Cost.backward_products` is for differentiating it alone, without running it again.
        """

    def memory_heads(self, num_kv_heads: int) -> int:
        """How many memories are kept while decoding: one a key/value head, unless heads differ."""
        return num_kv_heads

    def prepare(
        self, key: Float[Tensor, "batch kv_heads length key_dim"]
    ) -> Float[Tensor, "batch kv_heads length key_dim"]:
        """What is done to keys first; nothing, unless a member says otherwise."""
        return key

    def forward(
        self,
        query: Float[Tensor, "batch heads query_length key_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        value: Float[Tensor, "batch kv_heads key_length value_dim"],
        mask: Mask = NO_MASK,
        **extras: Tensor,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        self.admit(query, key, value, mask)
        rows = min(query.shape[2], key.shape[2])
        ahead = query.shape[2] - rows
        if rows == 0:
            return value.new_zeros(*query.shape[:3], value.shape[-1])
        lined_up, key, control = self._line_up(query, key, mask, extras)
        value = repeat_heads(value, query.shape[1])
        memory = value.new_zeros(*value.shape[:2], key.shape[-1], value.shape[-1])
        output = chunked_scan(
            self.chunk_step, (memory,), (lined_up, key, value, control), chunk_size=self.chunk_size
        )
        # Queries that stand before the first key have read nothing.
        return functional.pad(output[:, :, -rows:], (0, 0, ahead, 0))

    def weights(
        self,
        query: Float[Tensor, "batch heads query_length key_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        mask: Mask = NO_MASK,
        **extras: Tensor,
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        self.admit(query, key, None, mask)
        rows = min(query.shape[2], key.shape[2])
        ahead = query.shape[2] - rows
        if rows == 0:
            return query.new_zeros(*query.shape[:3], key.shape[2])
        weights = self.pair_weights(*self._line_up(query, key, mask, extras))
        return functional.pad(weights[:, :, -rows:], (0, 0, ahead, 0))

    def _line_up(
        self, query: Tensor, key: Tensor, mask: Mask, extras: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One query a key, the last with the last."""
        key, control = self._steer(key, mask, extras, num_heads=query.shape[1])
        # A negative pad drops the queries that stand before the first key.
        before = key.shape[2] - query.shape[2]
        return functional.pad(self._scaled(query), (0, 0, before, 0)), key, control

    def _steer(
        self, key: Tensor, mask: Mask, extras: dict[str, Tensor], *, num_heads: int
    ) -> tuple[Tensor, Tensor]:
        """The prepared keys and their controls, a head each, those of padded keys silenced."""
        key = repeat_heads(key, num_heads)
        brought = {name: repeat_heads(extra, num_heads) for name, extra in extras.items()}
        prepared, control = self.prepare(key), self.control(key, **brought)
        if mask.lengths is None:
            return prepared, control
        keep = mask.keep(key.shape[2])[:, None, :, None]
        return prepared * keep, control * keep

    def _scaled(self, query: Tensor) -> Tensor:
        return query * query.shape[-1] ** -0.5

    def start(
        self,
        *,
        batch_size: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> MemoryState:
        size = (batch_size, self.memory_heads(num_kv_heads), key_dim, value_dim)
        return MemoryState(
            memory=torch.zeros(size, dtype=dtype, device=device),
            position=torch.zeros(batch_size, dtype=torch.long, device=device),
        )

    def extend(
        self,
        state: MemoryState,
        key: Float[Tensor, "batch kv_heads new_length key_dim"],
        value: Float[Tensor, "batch kv_heads new_length value_dim"],
        mask: Mask = NO_MASK,
        **extras: Tensor,
    ) -> MemoryState:
        refuse_misextended(key, value, mask)
        if key.shape[2] == 0:
            return state
        heads = state.memory.shape[1]
        key, control = self._steer(key, mask, extras, num_heads=heads)
        value = repeat_heads(value, heads)
        memory: Tensors = (state.memory,)
        pieces = zip(
            *(part.split(self.chunk_size, 2) for part in (key, value, control)), strict=True
        )
        for keys, values, controls in pieces:
            # The output is not wanted here, so it does not matter what asks for it.
            memory = self.chunk_step(memory, (keys, keys, values, controls))[1]
        taken = key.shape[2] if mask.lengths is None else mask.lengths.to(state.position)
        return MemoryState(memory=memory[0], position=state.position + taken)

    def read(
        self, state: MemoryState, query: Float[Tensor, "batch heads query_length key_dim"]
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        return self._scaled(query) @ repeat_heads(state.memory, query.shape[1])

    def cost(self, shape: AttentionShape) -> Cost:
        chunk_size = max(1, min(self.chunk_size, shape.key_length))
        whole, rest = divmod(shape.key_length, chunk_size)
        full = self.chunk_cost(chunk_size, shape.key_dim, shape.value_dim)
        last = self.chunk_cost(rest, shape.key_dim, shape.value_dim) if rest else Cost()
        memories = shape.batch_size * self.memory_heads(shape.num_kv_heads or shape.num_heads)
        width = 2 * shape.value_dim + 3 * shape.key_dim
        read = 2 * shape.rows * shape.key_dim * shape.value_dim
        products = whole * full.products + last.products
        # Backward runs every chunk again, and before that all but the last one to find their states.
        final = last if rest else full
        again = 2 * products - final.products if shape.key_length else 0
        differentiated = whole * full.backward_products + last.backward_products
        # Queries are scaled first.
        scaled = shape.query_length * shape.key_dim if shape.key_length else 0
        return Cost(
            products=shape.rows * products,
            functions=shape.rows * (whole * full.functions + last.functions),
            arithmetic=shape.rows * (scaled + whole * full.arithmetic + last.arithmetic),
            backward_products=shape.rows * (again + differentiated),
            step_products=memories * self.chunk_cost(1, shape.key_dim, shape.value_dim).products
            + read,
            memory=shape.rows * shape.key_length * width + shape.rows * full.memory,
            parameters=self.num_parameters,
            state=memories * shape.key_dim * shape.value_dim,
            sequential_steps=whole + bool(rest),
            longest_path=1,
        )
