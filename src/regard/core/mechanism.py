"""The attention mechanism interface: forward, attention weights, token-by-token decoding, cost.

Tensors are (batch, heads, length, width). The output is linear in the values, and `weights` is that
linear map. The conformance suite checks the right-hand column for every mechanism:

    forward(query, key, value, mask)    the fast path                = weights(...) @ value
    weights(query, key, mask)           attention weights            = forward on one-hot values
    start, extend, read, step           decoding with a state        = causal forward, row by row
    cost(shape)                         FLOPs, memory, state …       = what a counter measures, if declared

A mechanism declares what it supports in `capabilities`, and in `gates` the per-position inputs it needs
besides query, key and value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.counting import attention_example, attention_path_length, counted_cost
from regard.core.errors import RegardError
from regard.core.masks import MASK_KINDS, NO_MASK, Mask, validate_mask

LAYOUT = ("batch", "heads", "length", "width")
Query = Float[Tensor, "batch heads query_length query_dim"]
Key = Float[Tensor, "batch kv_heads key_length key_dim"]
Value = Float[Tensor, "batch kv_heads key_length value_dim"]
Output = Float[Tensor, "batch heads query_length value_dim"]
Weights = Float[Tensor, "batch heads query_length key_length"]


def validate_attention_inputs(query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
    """Raise an error unless all are (batch, heads, length, width) with compatible sizes.

    It looks at shapes only; reading values would wait for the device in every step.
    """
    validate_mask(mask)
    shapes: dict[str, tuple[int, ...]] = {"query": query.shape, "key": key.shape}
    if value is not None:
        shapes["value"] = value.shape
    for name, shape in shapes.items():
        if len(shape) != len(LAYOUT):
            raise RegardError(
                f"{name} has shape {tuple(shape)}; it must be ({', '.join(LAYOUT)}). "
                "A layer such as MultiHead takes (batch, length, width) and splits it into heads."
            )
        if shape[0] != shapes["query"][0]:
            raise RegardError(
                f"{name} has {shape[0]} rows and query has {query.shape[0]}: "
                "all must have the same batch."
            )
        if shapes["query"][1] % max(shape[1], 1) != 0:
            raise RegardError(
                f"{name} has {shape[1]} heads and query has {query.shape[1]}: "
                "key/value heads must divide query heads."
            )
    if value is not None and shapes["value"][1:3] != shapes["key"][1:3]:
        raise RegardError(
            f"key has {key.shape[1]} heads of length {key.shape[2]} and value {value.shape[1]} of "
            f"length {value.shape[2]}: every key needs one value."
        )
    if mask.lengths is not None and len(mask.lengths) != query.shape[0]:
        raise RegardError(
            f"Padding has {len(mask.lengths)} lengths for {query.shape[0]} rows: give one per row."
        )
    if mask.allowed is not None:
        expected = (*query.shape[:3], key.shape[2])
        shape = tuple(mask.allowed.shape)
        if any(size not in (1, whole) for size, whole in zip(shape, expected, strict=True)):
            raise RegardError(
                f"Allowed has shape {shape}; it must broadcast to (batch, heads, n_q, n_k) = {expected}."
            )


def validate_lengths(mask: Mask, key_length: int) -> None:
    """Raise an error for padding lengths outside 0 … key_length; it reads their values."""
    if mask.lengths is None or mask.lengths.numel() == 0:
        return
    shortest, longest = (int(length) for length in mask.lengths.aminmax())
    if shortest < 0 or longest > key_length:
        raise RegardError(
            f"Padding has lengths from {shortest} to {longest} and there are {key_length} keys: a "
            "length must be 0 or more, and at most the number of keys."
        )


class UnsupportedCallError(RegardError):
    """A call outside a mechanism's `capabilities`; another mechanism may support it."""


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
    dropout: `forward` takes `dropout`, the probability with which an attention weight is zeroed. For other
    mechanisms, `MultiHead` computes the weights of all pairs while it trains with attention dropout.
    """

    roles: frozenset[Role] = frozenset({"self", "cross"})
    masks: frozenset[str] = frozenset(MASK_KINDS)
    requires_causal: bool = False
    rows_sum_to_one: bool = True
    nonnegative: bool = True
    max_length: int | None = None
    position_aware: bool = False
    score_bias: bool = False
    dropout: bool = False


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
    """Base class of attention mechanisms; the module docstring defines the methods.

    `forward`, `weights` and `extend` check the shapes of their arguments. With `validate` they also check
    the values of padding lengths, which waits for the device.
    """

    validate: bool = False
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

    def cost(self, shape: AttentionShape) -> Cost:
        """The cost of one forward call of this shape.

        A mechanism may declare it in a formula, which the conformance suite compares with the count.
        By default it is counted: one forward, backward and decoding step on fake tensors (on real ones
        of limited size if the mechanism's operators depend on values), remembered by shape.
        `sequential_steps` is then the longest chain of dependent operators, and `max_path_length` that of
        the nonzero weights, beyond `MAX_WALK` positions extrapolated from their longest distance.
        """
        return counted_cost(
            self,
            partial(attention_example, shape=shape),
            key=shape,
            numbers=4 * shape.batch_heads * shape.pairs,
            max_path_length=partial(attention_path_length, self, shape),
        )

    @property
    def declares_cost(self) -> bool:
        """Whether `cost` is a formula of this mechanism's own."""
        return type(self).cost is not Mechanism.cost

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

    def validate_call(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        """Raise an error for a call outside this mechanism's `capabilities`."""
        validate_attention_inputs(query, key, value, mask)
        if self.validate:
            validate_lengths(mask, key.shape[2])
        supported = self.capabilities
        unsupported = mask.kinds - supported.masks
        if unsupported:
            raise UnsupportedCallError(
                f"{self.name} does not support the mask {mask}: {', '.join(sorted(unsupported))} is "
                f"not among its mask kinds ({', '.join(sorted(supported.masks)) or 'none'})."
            )
        if supported.requires_causal and not mask.causal:
            raise UnsupportedCallError(
                f"{self.name} does not support the mask {mask}: it needs causal masking. Pass a mask "
                "with Causal(), or choose a mechanism that also works without one."
            )
        self.validate_length(key.shape[2])

    def validate_extend(self, key: Tensor, value: Tensor, mask: Mask) -> None:
        """Raise an error for inputs that `extend` cannot take; its only mask is padding."""
        validate_attention_inputs(key, key, value, mask)
        if mask.kinds - {"padding"}:
            raise RegardError(
                f"extend was called with the mask {mask}; it takes Padding(lengths) only. A query "
                "attends to all tokens in the state."
            )
        if self.validate:
            validate_lengths(mask, key.shape[2])

    def validate_length(self, key_length: int) -> None:
        """Raise an error for more keys than `max_length`."""
        limit = self.capabilities.max_length
        if limit is not None and key_length > limit:
            raise UnsupportedCallError(
                f"{self.name} has weights for a fixed number of positions (max_length={limit}) but "
                f"there are {key_length} keys. Raise max_length, or choose a mechanism that scores "
                "keys, such as scaled_dot."
            )


@runtime_checkable
class SequenceMixer(Protocol):
    """What a Transformer block needs of its attention layer, an `nn.Module`; `MultiHead` is one.

    Other layers that move information between positions, such as a convolution or a recurrence, may stand
    there too. `step` continues the causal `forward` of self-attention, `extend` and `read` that of
    cross-attention. `weights(x, context, mask)`, `role` and `max_length` are optional.
    """

    @property
    def model_dim(self) -> int:
        """The width of inputs and outputs."""
        ...

    def __call__(self, x: Tensor, context: Tensor | None = None, mask: Mask = NO_MASK) -> Tensor:
        """The output of every position of x; `context` is the other sequence in cross-attention."""
        ...

    def start(self, batch_size: int) -> Any:
        """An empty decoding state (`State`)."""
        ...

    def extend(self, state: Any, context: Tensor, mask: Mask = NO_MASK) -> Any:
        """The state with the tokens of the context, which may be padded."""
        ...

    def read(self, state: Any, x: Tensor) -> Tensor:
        """The output of x at the last position, over all tokens in the state."""
        ...

    def step(self, state: Any, x: Tensor) -> Step:
        """The output of the causal `forward` for new tokens, and the state after them."""
        ...


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
