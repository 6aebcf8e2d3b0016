"""Where the chunks of a causal scan lie, and what the scan takes with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.cost import Cost


class Cuts:
    """Where the chunks lie. Keys before every query make chunks of their own, which come first."""

    def __init__(self, query_length: int, key_length: int, chunk_size: int) -> None:
        alone = _sizes(max(key_length - query_length, 0), chunk_size)
        paired = _sizes(min(query_length, key_length), chunk_size)
        self.num_alone, self.num_chunks = len(alone), len(alone) + len(paired)
        self.key_sizes = [*alone, *paired]
        # Queries before every key are in no chunk; the empty ones keep the numbering of the keys.
        self.query_sizes = [query_length - sum(paired), *(0 for _ in alone), *paired]
        self.blank_keys = sum(alone)

    def keys(self, tensor: Tensor | None, *, blank: bool = False) -> Sequence[Any]:
        """The chunks of a tensor along the keys; with `blank`, zero those without queries."""
        if tensor is None:
            return [None] * self.num_chunks
        if blank:
            tensor[:, : self.blank_keys] = 0
        return torch.split(tensor, self.key_sizes, dim=1)

    def queries(self, tensor: Tensor, *, blank: bool = False) -> Sequence[Tensor]:
        """The chunks of a tensor along the queries; with `blank`, zero those without keys."""
        if blank:
            tensor[:, : self.query_sizes[0]] = 0
        return torch.split(tensor, self.query_sizes, dim=1)[1:]


def _sizes(length: int, chunk_size: int) -> list[int]:
    return [min(chunk_size, length - start) for start in range(0, length, chunk_size)]


def causal_average_cost(
    *,
    query_length: int,
    key_length: int,
    pair_width: int,
    num_features: int,
    value_dim: int,
    chunk_size: int,
) -> Cost:
    """What `causal_kernel_average` takes for one head: `pair_width` is that of the dot products."""
    cuts = Cuts(query_length, key_length, chunk_size)
    products = 0
    for i, size in enumerate(cuts.key_sizes):
        through_state = 2 * size * num_features * value_dim
        if i >= cuts.num_alone:
            products += 2 * size * size * (pair_width + value_dim)
            products += through_state if i > 0 else 0
        products += through_state if i + 1 < cuts.num_chunks else 0
    largest = max(cuts.key_sizes, default=0)
    return Cost(
        products=products,
        # The division is one reciprocal a query.
        functions=query_length,
        memory=query_length * (value_dim + 4)
        + num_features * (value_dim + 2 * largest)
        + largest * (2 * largest + value_dim),
        sequential_steps=cuts.num_chunks,
    )
