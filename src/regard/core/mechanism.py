"""The contract every attention mechanism meets.

Tensors are (batch, heads, length, width). The output is linear in the values, and `weights` is that
linear map; the conformance suite holds every mechanism to the right-hand column:

    forward(query, key, value, mask)    the fast path                = weights(...) @ value
    weights(query, key, mask)           who read whom                = forward on one-hot values
    start, extend, read, step           one token at a time          = causal forward, row by row
    cost(shape)                         operations, memory, state …  = what a counter measures

What a mechanism can do is declared in `capabilities`, and what it needs from its surroundings beyond
query, key and value is declared by name in `extras`.
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

# What the tensors of an attention call must agree on, and the error when they do not.


LAYOUT = ("batch", "heads", "length", "width")


def refuse_misshapen(query: Tensor, key: Tensor, value: Tensor | None, mask: object) -> None:
    """Refuse tensors that are not (batch, heads, length, width) or do not belong together."""
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
                "A layer such as MultiHead takes (batch, length, width) and makes the heads."
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
    refuse_wrong_lengths(mask, batch_size=query.shape[0], key_length=key.shape[2])
    if mask.allowed is not None:
        wanted = (*query.shape[:3], key.shape[2])
        given = tuple(mask.allowed.shape)
        if any(size not in (1, whole) for size, whole in zip(given, wanted, strict=True)):
            raise RegardError(
                f"Allowed has shape {given}; it must broadcast to (batch, heads, n_q, n_k) = {wanted}."
            )


def refuse_wrong_lengths(mask: Mask, *, batch_size: int, key_length: int) -> None:
    """Refuse a padding that does not give every row a length within the sequence."""
    if mask.lengths is None:
        return
    if len(mask.lengths) != batch_size:
        raise RegardError(
            f"Padding has {len(mask.lengths)} lengths for {batch_size} rows: give one a row."
        )
    if batch_size and int(mask.lengths.max()) > key_length:
        raise RegardError(
            f"Padding has a length of {int(mask.lengths.max())} and there are {key_length} keys: "
            "a row cannot be longer than the sequence."
        )


def refuse_misextended(key: Tensor, value: Tensor, mask: object) -> None:
    """Refuse what a decoding state cannot take in; of masks it takes padding alone."""
    refuse_misshapen(key, key, value, mask)
    assert isinstance(mask, Mask)
    foreign = mask.kinds - {"padding"}
    if foreign:
        raise RegardError(
            f"extend was given the mask {mask}; a state takes Padding(lengths) alone, and reads "
            "everything that it has taken in."
        )


# What a mechanism remembers while decoding: a named tuple of batch-first tensors.
#
# Every state has a field `position`, the number of tokens each row has taken in, and
# `select(index)`, which reorders or repeats its rows, as beam search does between steps.


@runtime_checkable
class State(Protocol):
    """The part of a state that a model may rely on."""

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many tokens each row has taken in."""
        ...

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        ...


class Step(NamedTuple):
    """What one decoding step gives back."""

    output: Tensor
    state: Any


Rows = TypeVar("Rows", bound=tuple[Any, ...])


def select_rows(state: Rows, index: Int[Tensor, " rows"]) -> Rows:
    """Every tensor of a named tuple, its first dimension indexed by `index`."""
    return type(state)(*(tensor.index_select(0, index) for tensor in state))


def state_size(state: tuple[Any, ...]) -> int:
    """How many floating-point numbers a state holds (positions and flags not counted)."""
    return sum(tensor.numel() for tensor in state if tensor.is_floating_point())


Role = Literal["self", "cross"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a mechanism promises. Every promise is checked by the conformance suite."""

    roles: frozenset[Role] = frozenset({"self", "cross"})
    masks: frozenset[str] = frozenset(MASK_KINDS)
    requires_causal: bool = False
    rows_sum_to_one: bool = True
    nonnegative: bool = True
    max_length: int | None = None
    # Whether permuting the keys together with the values can change the output of an unmasked call.
    position_aware: bool = False
    score_bias: bool = False


@dataclass(frozen=True)
class Extra:
    """A number, or a vector as wide as a key, that every key position brings along.

    The multi-head layer computes it as `squash(linear(input))` and passes it by name, shaped
    (batch, kv heads, key length, 1 or key width), to `forward`, `weights` and `extend`.
    """

    name: str
    width: Literal["one", "key_dim"]
    squash: Callable[[Tensor], Tensor]


@runtime_checkable
class ScoreBias(Protocol):
    """Something added to scores that depends on positions only, such as ALiBi."""

    def values(
        self, query_positions: Int[Tensor, "..."], key_positions: Int[Tensor, "..."]
    ) -> Float[Tensor, "..."]:
        """The bias of every pair, broadcastable to (batch, heads, n_q, n_k)."""
        ...


class Mechanism(nn.Module, ABC):
    """How queries read values through keys. See the module's text for the contract."""

    extras: ClassVar[tuple[Extra, ...]] = ()

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this mechanism, as configured, can do."""

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        value: Float[Tensor, "batch kv_heads key_length value_dim"],
        mask: Mask = NO_MASK,
        *_: Any,
        **extras: Any,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        """What each query reads. A query with nothing to attend to gets zeros."""

    @abstractmethod
    def weights(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        mask: Mask = NO_MASK,
        *_: Any,
        **extras: Any,
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        """How much of each value goes into each output: `forward` is `weights @ value`."""

    @abstractmethod
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

    @abstractmethod
    def extend(
        self,
        state: Any,
        key: Float[Tensor, "batch kv_heads new_length key_dim"],
        value: Float[Tensor, "batch kv_heads new_length value_dim"],
        mask: Mask = NO_MASK,
        *_: Any,
        **extras: Any,
    ) -> Any:
        """The state after taking in further keys and values; `mask` may be `Padding(lengths)`."""

    @abstractmethod
    def read(
        self,
        state: Any,
        query: Float[Tensor, "batch heads query_length query_dim"],
        *_: Any,
        **words: Any,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        """What each query reads from everything taken in so far, standing at the last position."""

    @abstractmethod
    def cost(self, shape: AttentionShape) -> Cost:
        """What one forward call of this shape takes."""

    def step(
        self,
        state: Any,
        query: Float[Tensor, "batch heads new_length query_dim"],
        key: Float[Tensor, "batch kv_heads new_length key_dim"],
        value: Float[Tensor, "batch kv_heads new_length value_dim"],
        *,
        bias: ScoreBias | None = None,
        **extras: Tensor,
    ) -> Step:
        """Extend and read, token by token: the causal `forward`, continued from `state`."""
        words: dict[str, Any] = {} if bias is None else {"bias": bias}
        outputs = []
        for token in range(query.shape[2]):
            now = slice(token, token + 1)
            brought: dict[str, Any] = {name: extra[:, :, now] for name, extra in extras.items()}
            state = self.extend(state, key[:, :, now], value[:, :, now], **brought)
            outputs.append(self.read(state, query[:, :, now], **words))
        if not outputs:
            return Step(value.new_zeros(*query.shape[:3], value.shape[-1]), state)
        return Step(torch.cat(outputs, dim=2), state)

    @property
    def name(self) -> str:
        """What error messages call it."""
        return type(self).__name__

    @property
    def num_parameters(self) -> int:
        """How many trainable numbers it has."""
        return sum(parameter.numel() for parameter in self.parameters())

    def admit(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        """Refuse a call this mechanism has not promised to answer, saying what it does promise."""
        refuse_misshapen(query, key, value, mask)
        promised = self.capabilities
        foreign = mask.kinds - promised.masks
        if foreign:
            raise RegardError(
                f"{self.name} does not take the mask {mask}: {', '.join(sorted(foreign))} is not among "
                f"the kinds it takes ({', '.join(sorted(promised.masks)) or 'none'})."
            )
        if promised.requires_causal and not mask.causal:
            raise RegardError(
                f"{self.name} reads the past only: pass a mask with Causal(), "
                "or choose a mechanism that also works without one (see `regard list`)."
            )
        self.refuse_overlong(key.shape[2])

    def refuse_overlong(self, key_length: int) -> None:
        """Refuse more keys than a mechanism of bounded length can weigh."""
        limit = self.capabilities.max_length
        if limit is not None and key_length > limit:
            raise RegardError(
                f"{self.name} weighs a fixed number of positions (max_length={limit}) but there are "
                f"{key_length} keys. Raise max_length, or choose a mechanism that scores keys, such "
                "as scaled_dot."
            )


def repeat_heads(tensor: Float[Tensor, "batch kv_heads length width"], num_heads: int) -> Tensor:
    """Each key/value head repeated for the group of query heads that shares it."""
    if tensor.shape[1] == num_heads:
        return tensor
    return tensor.repeat_interleave(num_heads // tensor.shape[1], dim=1)
