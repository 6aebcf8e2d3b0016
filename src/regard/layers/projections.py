"""From token vectors to heads: the linear maps before a mechanism, fused where they share an input.

Self-attention makes queries, keys and values with one matrix product; cross-attention makes queries
of x with one, and keys and values of the context with another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.mechanism import Role
from regard.layers.head_sizes import HeadSizes
from regard.layers.layer_cost import cost_of, per_position


class KeyValue(NamedTuple):
    """What a context offers to be read."""

    key: Float[Tensor, "batch kv_heads key_length head_dim"]
    value: Float[Tensor, "batch kv_heads key_length value_dim"]


class Heads(NamedTuple):
    """What a mechanism is given."""

    query: Float[Tensor, "batch heads query_length head_dim"]
    key: Float[Tensor, "batch kv_heads key_length head_dim"]
    value: Float[Tensor, "batch kv_heads key_length value_dim"]


class Projection(nn.Module, ABC):
    """The maps to queries, to keys and to values."""

    def __init__(self, *, sizes: HeadSizes) -> None:
        super().__init__()
        self.sizes = sizes

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "batch query_length model_dim"],
        context: Float[Tensor, "batch key_length context_dim"],
    ) -> Heads:
        """Everything at once, for whole sequences."""

    @abstractmethod
    def query(
        self, x: Float[Tensor, "batch query_length model_dim"]
    ) -> Float[Tensor, "batch heads query_length head_dim"]:
        """Queries alone, for reading."""

    @abstractmethod
    def key_value(self, context: Float[Tensor, "batch key_length context_dim"]) -> KeyValue:
        """Keys and values alone, for extending."""

    @abstractmethod
    def cost(self, *, batch_size: int, query_length: int, key_length: int) -> Cost:
        """What `forward` takes; a step projects one position of x, of a context already projected."""

    def _dealt(self, key_value: Float[Tensor, "batch key_length width"]) -> KeyValue:
        sizes = self.sizes
        key, value = key_value.split_with_sizes((sizes.key_width, sizes.value_width), dim=-1)
        return KeyValue(split_heads(key, sizes.head_dim), split_heads(value, sizes.value_dim))


class SelfProjection(Projection):
    """One matrix for queries, keys and values, its rows in that order."""

    def __init__(self, *, sizes: HeadSizes, bias: bool) -> None:
        super().__init__(sizes=sizes)
        widths = (sizes.query_width, sizes.key_width, sizes.value_width)
        self.linear = nn.Linear(sizes.model_dim, sum(widths), bias=bias)
        reset(self.linear, widths)

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
        return self._dealt(self._rows(context, slice(self.sizes.query_width, None)))

    def _rows(self, x: Tensor, rows: slice) -> Tensor:
        bias: Tensor | None = self.linear.bias
        return F.linear(x, self.linear.weight[rows], None if bias is None else bias[rows])

    def cost(self, *, batch_size: int, query_length: int, key_length: int) -> Cost:
        cost = cost_of(self.linear, rows=batch_size * query_length)
        return per_position(cost, length=query_length)


class CrossProjection(Projection):
    """A matrix for the queries of x, and one for the keys and values of the context."""

    def __init__(self, *, sizes: HeadSizes, bias: bool) -> None:
        super().__init__(sizes=sizes)
        widths = (sizes.key_width, sizes.value_width)
        self.query_linear = nn.Linear(sizes.model_dim, sizes.query_width, bias=bias)
        self.key_value_linear = nn.Linear(sizes.context_dim, sum(widths), bias=bias)
        reset(self.query_linear, (sizes.query_width,))
        reset(self.key_value_linear, widths)

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
        return self._dealt(self.key_value_linear(context))

    def cost(self, *, batch_size: int, query_length: int, key_length: int) -> Cost:
        keys = cost_of(self.key_value_linear, rows=batch_size * key_length)
        queries = cost_of(self.query_linear, rows=batch_size * query_length)
        # The two do not wait for one another.
        return replace(keys + per_position(queries, length=query_length), sequential_steps=1)


def build_projection(
    *, role: Role, sizes: HeadSizes, bias: bool
) -> SelfProjection | CrossProjection:
    """The projection of a role."""
    kind = SelfProjection if role == "self" else CrossProjection
    return kind(sizes=sizes, bias=bias)


def split_heads(
    x: Float[Tensor, "batch length width"], head_dim: int
) -> Float[Tensor, "batch heads length {head_dim}"]:
    """The features dealt out to heads, as a view."""
    return x.view(*x.shape[:2], -1, head_dim).transpose(1, 2)


def reset(linear: nn.Linear, widths: tuple[int, ...]) -> None:
    """Glorot's start for each of the maps that share a matrix, as if apart; biases are zero."""
    for part in linear.weight.split_with_sizes(widths):
        nn.init.xavier_uniform_(part)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
