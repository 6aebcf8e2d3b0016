"""Where the chunks of a causal scan lie, and what the scan takes with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.cost import Cost
from regard.mechanisms.normalising_cost import average_arithmetic


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
    curve_arithmetic: int = 0,
    feature_arithmetic: int = 0,
) -> Cost:
    """What `causal_kernel_average` takes for one head: `pair_width` is that of the dot products.

    `curve_arithmetic` is what the kernel takes for a pair beside its dot product, and
    `feature_arithmetic` what it takes to make the features of one vector.
    """
    cuts = Cuts(query_length, key_length, chunk_size)
    products = backward = 0
    arithmetic = average_arithmetic(query_length, value_dim)
    for i, size in enumerate(cuts.key_sizes):
        through_state = 2 * size * num_features * value_dim
        has_state, is_last = i > 0, i + 1 == cuts.num_chunks
        if i >= cuts.num_alone:
            products += 2 * size * size * (pair_width + value_dim)
            # Dots again; gradients of scores, values, queries and keys.
            backward += 2 * size * size * (3 * pair_width + 2 * value_dim)
            arithmetic += size * size * (curve_arithmetic + 1)  # and the sum
        if i >= cuts.num_alone and has_state:
            products += through_state
            # The gradient of the queries' features, which are then absorbed.
            backward += 2 * through_state
            arithmetic += size * (feature_arithmetic + 2 * num_features + value_dim + 1)
        if not is_last:
            products += through_state
            backward += through_state
            arithmetic += size * (feature_arithmetic + num_features)
            arithmetic += num_features * (value_dim + 1) if has_state else 0
        if not is_last and cuts.num_alone < cuts.num_chunks:
            # Walking back: the gradients of the values and of the keys' features.
            backward += 2 * through_state
    largest = max(cuts.key_sizes, default=0)
    return Cost(
        products=products,
        # The division is one reciprocal a query.
        functions=query_length,
        arithmetic=arithmetic,
        backward_products=backward,
        memory=query_length * (value_dim + 4)
        + num_features * (value_dim + 2 * largest)
        + largest * (2 * largest + value_dim),
        sequential_steps=cuts.num_chunks,
    )
