"""Query, key and value projections of multi-head attention, and the projections of gates.

Self-attention has one fused matrix for queries, keys and values; cross-attention has one for the queries
of x and one for the keys and values of the context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.mechanism import Gate, Role


@dataclass(frozen=True, kw_only=True)
class HeadSizes:
    """The sizes of multi-head attention."""

    model_dim: int
    context_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int

    @classmethod
    def of(
        cls,
        *,
        role: Role,
        model_dim: int,
        context_dim: int | None,
        num_heads: int,
        num_kv_heads: int | None,
        head_dim: int | None,
        value_dim: int | None,
    ) -> Self:
        """Sizes that fit together; None is replaced by the default."""
        if head_dim is None and model_dim % num_heads:
            raise RegardError(
                f"MultiHead has model_dim={model_dim} and num_heads={num_heads}: the heads must "
                "divide the width. Choose a divisor, or set head_dim."
            )
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if num_heads % num_kv_heads:
            raise RegardError(
                f"MultiHead has num_heads={num_heads} and num_kv_heads={num_kv_heads}: key/value "
                "heads must divide query heads. Choose a divisor."
            )
        context_dim = model_dim if context_dim is None else context_dim
        if role == "self" and context_dim != model_dim:
            raise RegardError(
                f"MultiHead has context_dim={context_dim} and role 'self', where the context is x "
                f"itself (model_dim={model_dim}). Omit context_dim, or choose role 'cross'."
            )
        head_dim = model_dim // num_heads if head_dim is None else head_dim
        value_dim = head_dim if value_dim is None else value_dim
        return cls(
            model_dim=model_dim,
            context_dim=context_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            value_dim=value_dim,
        )

    @property
    def query_width(self) -> int:
        """The width of the queries of all heads."""
        return self.num_heads * self.head_dim

    @property
    def key_width(self) -> int:
        """The width of the keys of all key/value heads."""
        return self.num_kv_heads * self.head_dim

    @property
    def value_width(self) -> int:
        """The width of the values of all key/value heads."""
        return self.num_kv_heads * self.value_dim


class KeyValue(NamedTuple):
    """Keys and values of a context, split into heads."""

    key: Float[Tensor, "batch kv_heads key_length head_dim"]
    value: Float[Tensor, "batch kv_heads key_length value_dim"]


class Heads(NamedTuple):
    """Queries, keys and values, split into heads."""

    query: Float[Tensor, "batch heads query_length head_dim"]
    key: Float[Tensor, "batch kv_heads key_length head_dim"]
    value: Float[Tensor, "batch kv_heads key_length value_dim"]


class Projection(nn.Module, ABC):
    """The query, key and value projections."""

    def __init__(self, *, sizes: HeadSizes) -> None:
        super().__init__()
        self.sizes = sizes

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"],
    ) -> Heads:
        """Queries, keys and values of whole sequences."""

    @abstractmethod
    def query(
        self, x: Float[Tensor, "batch query_length model_dim"]
    ) -> Float[Tensor, "batch heads query_length head_dim"]:
        """Queries only, for `read`."""

    @abstractmethod
    def key_value(self, context: Float[Tensor, "batch key_length context_dim"]) -> KeyValue:
        """Keys and values only, for `extend`."""

    def _split_key_value(self, key_value: Float[Tensor, "batch key_length width"]) -> KeyValue:
        sizes = self.sizes
        key, value = key_value.split_with_sizes((sizes.key_width, sizes.value_width), dim=-1)
        return KeyValue(split_heads(key, sizes.head_dim), split_heads(value, sizes.value_dim))


class SelfProjection(Projection):
    """One matrix for queries, keys and values, its rows in that order."""

    def __init__(self, *, sizes: HeadSizes, bias: bool) -> None:
        super().__init__(sizes=sizes)
        widths = (sizes.query_width, sizes.key_width, sizes.value_width)
        self.linear = nn.Linear(sizes.model_dim, sum(widths), bias=bias)
        init_projection(self.linear, widths)

    def forward(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"],
    ) -> Heads:
        sizes = self.sizes
        widths = (sizes.query_width, sizes.key_width, sizes.value_width)
        query, key, value = self.linear(x).split_with_sizes(widths, dim=-1)
        return Heads(
            query=split_heads(query, sizes.head_dim),
            key=split_heads(key, sizes.head_dim),
            value=split_heads(value, sizes.value_dim),
        )

    def query(
        self, x: Float[Tensor, "batch query_length model_dim"]
    ) -> Float[Tensor, "batch heads query_length head_dim"]:
        query = self._rows(x, slice(None, self.sizes.query_width))
        return split_heads(query, self.sizes.head_dim)

    def key_value(self, context: Float[Tensor, "batch key_length context_dim"]) -> KeyValue:
        return self._split_key_value(self._rows(context, slice(self.sizes.query_width, None)))

    def _rows(self, x: Tensor, rows: slice) -> Tensor:
        bias: Tensor | None = self.linear.bias
        return F.linear(x, self.linear.weight[rows], None if bias is None else bias[rows])


class CrossProjection(Projection):
    """A matrix for the queries of x, and one for the keys and values of the context."""

    def __init__(self, *, sizes: HeadSizes, bias: bool) -> None:
        super().__init__(sizes=sizes)
        widths = (sizes.key_width, sizes.value_width)
        self.query_linear = nn.Linear(sizes.model_dim, sizes.query_width, bias=bias)
        self.key_value_linear = nn.Linear(sizes.context_dim, sum(widths), bias=bias)
        init_projection(self.query_linear, (sizes.query_width,))
        init_projection(self.key_value_linear, widths)

    def forward(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"],
    ) -> Heads:
        return Heads(self.query(x), *self.key_value(context))

    def query(
        self, x: Float[Tensor, "batch query_length model_dim"]
    ) -> Float[Tensor, "batch heads query_length head_dim"]:
        return split_heads(self.query_linear(x), self.sizes.head_dim)

    def key_value(self, context: Float[Tensor, "batch key_length context_dim"]) -> KeyValue:
        return self._split_key_value(self.key_value_linear(context))


def build_projection(
    *, role: Role, sizes: HeadSizes, bias: bool
) -> SelfProjection | CrossProjection:
    """The projection for a role."""
    kind = SelfProjection if role == "self" else CrossProjection
    return kind(sizes=sizes, bias=bias)


def split_heads(
    x: Float[Tensor, "batch length width"], head_dim: int
) -> Float[Tensor, "batch heads length {head_dim}"]:
    """Split features into heads, as a view."""
    return x.view(*x.shape[:2], -1, head_dim).transpose(1, 2)


def init_projection(linear: nn.Linear, widths: tuple[int, ...]) -> None:
    """Xavier (Glorot) initialisation of each map in a fused matrix separately; biases are zero."""
    for part in linear.weight.split_with_sizes(widths):
        nn.init.xavier_uniform_(part)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


class GateProjections(nn.Module):
    """Computes each declared `Gate` as activation(linear(context)), per key/value head."""

    def __init__(
        self, *, gates: tuple[Gate, ...], context_dim: int, num_kv_heads: int, key_dim: int
    ) -> None:
        super().__init__()
        self.gates = gates
        self.widths = {gate.name: key_dim if gate.width == "key_dim" else 1 for gate in gates}
        self.linears = nn.ModuleDict(
            {
                gate.name: nn.Linear(context_dim, num_kv_heads * self.widths[gate.name])
                for gate in gates
            }
        )

    def forward(
        self, context: Float[Tensor, "batch key_length context_dim"]
    ) -> dict[str, Float[Tensor, "batch kv_heads key_length _"]]:
        return {
            gate.name: gate.activation(
                split_heads(self.linears[gate.name](context), self.widths[gate.name])
            )
            for gate in self.gates
        }
