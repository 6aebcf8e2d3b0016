"""The attention mechanism interface: forward, attention weights, token-by-token decoding, cost.

Tensors are (batch, heads, length, width). The output is linear in the values, and `weights` is that
linear map. The conformance suite checks the right-hand column for every mechanism:

    forward(query, key, value, mask)    the fast path                = weights(...) @ value
    weights(query, key, mask)           attention weights            = forward on one-hot values
    start, extend, read, step           decoding with a state        = causal forward, row by row
    cost(shape)                         FLOPs, memory, state …       = what a counter measures

A mechanism declares what it supports in `capabilities`, and in `gates` the per-position inputs it needs
besides query, key and value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.masks import MASK_KINDS, NO_MASK, Mask

LAYOUT = ("batch", "heads", "length", "width")
Query = Float[Tensor, "batch heads query_length query_dim"]
Key = Float[Tensor, "batch kv_heads key_length key_dim"]
Value = Float[Tensor, "batch kv_heads key_length value_dim"]
Output = Float[Tensor, "batch heads query_length value_dim"]
Weights = Float[Tensor, "batch heads query_length key_length"]


def validate_attention_inputs(
    query: Tensor, key: Tensor, value: Tensor | None, mask: object
) -> None:
    """Raise an error unless all are (batch, heads, length, width) with compatible sizes."""
    if not isinstance(mask, Mask):
        raise RegardError(
            f"mask is a {type(mask).__name__}; it must be a Mask, such as Causal(), "
            "Padding(lengths) or Allowed(boolean tensor)."
        )
    tensors = {"query": query, "key": key} | ({} if value is None else {"value": value})
    for name, tensor in tensors.items():
        if tensor.dim() != len(LAYOUT):
            raise RegardError(
                f"{name} has shape {tuple(tensor.shape)}; it must be ({', '.join(LAYOUT)}). "
                "A layer such as MultiHead takes (batch, length, width) and splits it into heads."
            )
        if tensor.shape[0] != query.shape[0]:
            raise RegardError(
                f"{name} has {tensor.shape[0]} rows and query has {query.shape[0]}: "
                "all must have the same batch."
            )
        if query.shape[1] % max(tensor.shape[1], 1) != 0:
            raise RegardError(
                f"{name} has {tensor.shape[1]} heads and query has {query.shape[1]}: "
                "key/value heads must divide query heads."
            )
    if value is not None and value.shape[1:3] != key.shape[1:3]:
        raise RegardError(
            f"key has {key.shape[1]} heads of length {key.shape[2]} and value {value.shape[1]} of "
            f"length {value.shape[2]}: every key needs one value."
        )
    validate_padding(mask, batch_size=query.shape[0], key_length=key.shape[2])
    if mask.allowed is not None:
        expected = (*query.shape[:3], key.shape[2])
        shape = tuple(mask.allowed.shape)
        if any(size not in (1, whole) for size, whole in zip(shape, expected, strict=True)):
            raise RegardError(
                f"Allowed has shape {shape}; it must broadcast to (batch, heads, n_q, n_k) = {expected}."
            )


def validate_padding(mask: Mask, *, batch_size: int, key_length: int) -> None:
    """Raise an error unless a padding mask has one length per row, within the sequence."""
    if mask.lengths is None:
        return
    if len(mask.lengths) != batch_size:
        raise RegardError(
            f"Padding has {len(mask.lengths)} lengths for {batch_size} rows: give one per row."
        )
    if batch_size and int(mask.lengths.max()) > key_length:
        raise RegardError(
            f"Padding has a length of {int(mask.lengths.max())} and there are {key_length} keys: "
            "a row cannot be longer than the sequence."
        )


def validate_extend(key: Tensor, value: Tensor, mask: object) -> None:
    """Raise an error for inputs that `extend` cannot take; its only mask is padding."""
    validate_attention_inputs(key, key, value, mask)
    assert isinstance(mask, Mask)
    if mask.kinds - {"padding"}:
        raise RegardError(
            f"extend was called with the mask {mask}; it takes Padding(lengths) only. A query "
            "attends to all tokens in the state."
        )


@runtime_checkable
class State(Protocol):
    """A decoding state, such as a KV cache: a named tuple of batch-first tensors."""

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """The number of tokens in each row."""
        ...

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is row index[r] of this one, for beam search."""
        ...


class Step(NamedTuple):
    """The result of one decoding step."""

    output: Tensor
    state: Any


Rows = TypeVar("Rows", bound=tuple[Any, ...])


def select_rows(state: Rows, index: Int[Tensor, " rows"]) -> Rows:
    """Index the first dimension of every tensor of a named tuple."""
    return type(state)(*(tensor.index_select(0, index) for tensor in state))


def state_size(state: tuple[Any, ...]) -> int:
    """The number of floating-point numbers in a state."""
    return sum(tensor.numel() for tensor in state if tensor.is_floating_point())


Role = Literal["self", "cross"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a mechanism supports, as checked by the conformance suite.

    position_aware: permuting the keys together with the values can change an unmasked output.
    """

    roles: frozenset[Role] = frozenset({"self", "cross"})
    masks: frozenset[str] = frozenset(MASK_KINDS)
    requires_causal: bool = False
    rows_sum_to_one: bool = True
    nonnegative: bool = True
    max_length: int | None = None
    position_aware: bool = False
    score_bias: bool = False


@dataclass(frozen=True)
class Gate:
    """A per-key gate: a scalar or a key_dim vector, such as a decay or a write strength.

    `MultiHead` computes it as `activation(linear(input))` and passes it by name, shaped
    (batch, kv heads, key length, 1 or key_dim), to `forward`, `weights` and `extend`.
    """

    name: str
    width: Literal["one", "key_dim"]
    activation: Callable[[Tensor], Tensor]


@runtime_checkable
class ScoreBias(Protocol):
    """A bias on attention scores that depends on positions only, such as ALiBi."""

    def values(
        self, query_positions: Int[Tensor, "..."], key_positions: Int[Tensor, "..."]
    ) -> Float[Tensor, "..."]:
        """The bias of every query–key pair, broadcastable to (batch, heads, n_q, n_k)."""
        ...


class Mechanism(nn.Module, ABC):
    """Base class of attention mechanisms; the module docstring defines the methods."""

    gates: ClassVar[tuple[Gate, ...]] = ()

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this mechanism supports, as configured."""

    @abstractmethod
    def forward(
        self, query: Query, key: Key, value: Value, mask: Mask = NO_MASK, *_: Any, **gates: Any
    ) -> Output:
        """The attention output; zeros for a query with no key to attend to."""

    @abstractmethod
    def weights(
        self, query: Query, key: Key, mask: Mask = NO_MASK, *_: Any, **gates: Any
    ) -> Weights:
        """The attention weights: `forward` is `weights @ value`."""

    def start(
        self,
        *,
        batch_size: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Any:
        """An empty state."""
        key = torch.zeros(batch_size, num_kv_heads, 0, key_dim, dtype=dtype, device=device)
        return self.empty_state(key, key.new_zeros(batch_size, num_kv_heads, 0, value_dim))

    def empty_state(self, key: Key, value: Value) -> Any:
        """What `start` returns, given keys and values of length 0; a subclass defines one of the two."""
        raise NotImplementedError

    @abstractmethod
    def extend(
        self, state: Any, key: Key, value: Value, mask: Mask = NO_MASK, *_: Any, **gates: Any
    ) -> Any:
        """The state with further keys and values; `mask` may be `Padding(lengths)`."""

    @abstractmethod
    def read(self, state: Any, query: Query, *_: Any, **kwargs: Any) -> Output:
        """The output of queries at the last position, over all tokens in the state."""

    @abstractmethod
    def cost(self, shape: AttentionShape) -> Cost:
        """The cost of one forward call of this shape."""

    def step(
        self,
        state: Any,
        query: Query,
        key: Key,
        value: Value,
        *,
        bias: ScoreBias | None = None,
        **gates: Tensor,
    ) -> Step:
        """Extend and read, token by token: the causal `forward`, continued from `state`."""
        read_kwargs: dict[str, Any] = {} if bias is None else {"bias": bias}
        outputs = []
        for token in range(query.shape[2]):
            now = slice(token, token + 1)
            gates_now: dict[str, Any] = {name: gate[:, :, now] for name, gate in gates.items()}
            state = self.extend(state, key[:, :, now], value[:, :, now], **gates_now)
            outputs.append(self.read(state, query[:, :, now], **read_kwargs))
        if not outputs:
            return Step(value.new_zeros(*query.shape[:3], value.shape[-1]), state)
        return Step(torch.cat(outputs, dim=2), state)

    @property
    def name(self) -> str:
        """The name used in error messages."""
        return type(self).__name__

    @property
    def num_parameters(self) -> int:
        """The number of trainable numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    def validate_minimum(self, minimum: int = 1, /, **options: int) -> None:
        """Raise an error for an option of the constructor below its minimum."""
        for name, value in options.items():
            if value < minimum:
                raise RegardError(f"{self.name} has {name}={value}; it must be {minimum} or more.")

    def validate_call(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        """Raise an error for a call outside this mechanism's `capabilities`."""
        validate_attention_inputs(query, key, value, mask)
        supported = self.capabilities
        unsupported = mask.kinds - supported.masks
        if unsupported:
            raise RegardError(
                f"{self.name} does not support the mask {mask}: {', '.join(sorted(unsupported))} is "
                f"not among its mask kinds ({', '.join(sorted(supported.masks)) or 'none'})."
            )
        if supported.requires_causal and not mask.causal:
            raise RegardError(
                f"{self.name} needs causal masking: pass a mask with Causal(), "
                "or choose a mechanism that also works without one (see `regard list`)."
            )
        self.validate_length(key.shape[2])

    def validate_length(self, key_length: int) -> None:
        """Raise an error for more keys than `max_length`."""
        limit = self.capabilities.max_length
        if limit is not None and key_length > limit:
            raise RegardError(
                f"{self.name} has weights for a fixed number of positions (max_length={limit}) but "
                f"there are {key_length} keys. Raise max_length, or choose a mechanism that scores "
                "keys, such as scaled_dot."
            )


def repeat_heads(tensor: Float[Tensor, "batch kv_heads length width"], num_heads: int) -> Tensor:
    """Repeat each key/value head for the query heads that share it (grouped-query attention)."""
    if tensor.shape[1] == num_heads:
        return tensor
    return tensor.repeat_interleave(num_heads // tensor.shape[1], dim=1)


def first_order_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a hand-written backward pass: double backward (create_graph=True) raises an error.

    Unlike `torch.autograd.function.once_differentiable` it also raises when the incoming gradient is a
    constant, as that of `output.sum()`; there torch returns a wrong second derivative.
    """

    def checked(ctx: Any, *gradients: Any) -> Any:
        # Autograd is enabled in a backward pass only when it is to be differentiated again.
        if torch.is_grad_enabled():
            raise RegardError(
                "Second derivatives (create_graph=True) are not supported by this hand-written "
                "backward pass. Use weights(query, key, mask) @ value, which has them."
            )
        return backward(ctx, *gradients)

    return checked
