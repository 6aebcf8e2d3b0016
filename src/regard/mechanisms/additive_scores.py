"""Additive scores, vector · tanh(query + key) of every pair, never holding the tanh of all pairs.

The score is that of Bahdanau et al., "Neural machine translation by jointly learning to align and
translate" (2014), for queries and keys already projected to the hidden width. Written plainly it
holds query_length * key_length * width numbers. Here pairs are taken a few query rows at a time,
and the backward pass computes their tanh again instead of keeping it.

Since tanh(x) = 1 - 2 / (exp(2x) + 1) and exp(2(a + b)) = exp(2a) exp(2b), the exponentials are
computed once a position instead of once a pair. The product cannot leave the number range while
|a| and |b| stay within a quarter of the greatest exponent; beyond that, tanh itself is called. Both
ways agree to rounding, so it makes no difference that one far entry decides for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.first_order import first_order

# Entries of the temporary in one step: 2 MB of float32, which the cache can hold.
STEP_ENTRIES = 1 << 19


class _Step(NamedTuple):
    """Some query rows of some lanes, a lane being one head of one example."""

    lanes: slice
    rows: slice

    def halves(self, query: Tensor, key: Tensor, *, exponential: bool) -> Tensor:
        """Return -tanh / 2 of each pair's sum, given exp(2x) or x: (lanes, rows, keys, width)."""
        query, key = query[self.lanes, self.rows, None], key[self.lanes, None]
        if exponential:
            return torch.addcmul(query.new_ones(()), query, key).reciprocal_().sub_(0.5)
        return torch.add(query, key).tanh_().mul_(-0.5)


def _steps(query: Tensor, key: Tensor) -> Iterator[_Step]:
    lane_count, row_count, width = query.shape
    row_entries = key.shape[1] * width
    if row_count * row_entries == 0:
        return
    rows = min(row_count, max(1, STEP_ENTRIES // row_entries))
    # Rows of several lanes go together only when all rows of a lane do.
    lanes = max(1, STEP_ENTRIES // (row_entries * rows)) if rows == row_count else 1
    for lane in range(0, lane_count, lanes):
        for row in range(0, row_count, rows):
            yield _Step(slice(lane, lane + lanes), slice(row, row + rows))


def _within_range(*tensors: Tensor) -> bool:
    """Whether the product of two exponentials exp(2x) neither overflows nor loses digits."""
    numbers = torch.finfo(tensors[0].dtype)
    greatest = min(math.log(numbers.max), -math.log(numbers.tiny)) / 4 - 0.5
    return all(tensor.numel() == 0 or _holds(tensor.abs().max() <= greatest) for tensor in tensors)


def _holds(condition: Tensor) -> bool:
    # A tensor that stands in for one while costs are counted has no numbers: they are taken for small.
    return type(condition) is not Tensor or bool(condition)


class _AdditiveScores(torch.autograd.Function):
    """Tensors are (lanes, length, width), the vector (lanes, width)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
        ctx.exponential = _within_range(query, key)
        if ctx.exponential:
            query, key = (2 * query).exp_(), (2 * key).exp_()
        ctx.save_for_backward(query, key, vector)
        scores = query.new_zeros(*query.shape[:2], key.shape[1])
        column = -2 * vector[:, :, None]
        for step in _steps(query, key):
            halves = step.halves(query, key, exponential=ctx.exponential).flatten(1, 2)
            scores[step.lanes, step.rows].flatten(1).unsqueeze(2).baddbmm_(
                halves, column[step.lanes], beta=0
            )
        return scores

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (grad_scores,) = gradients
        query, key, vector = ctx.saved_tensors
        grad_query, grad_key, grad_vector = map(torch.zeros_like, (query, key, vector))
        quarter = query.new_full((), 0.25)
        for step in _steps(query, key):
            halves = step.halves(query, key, exponential=ctx.exponential)
            upstream = grad_scores[step.lanes, step.rows]
            # Summed row by row first: one long sum over all pairs would lose digits.
            grad_vector[step.lanes] += (upstream.unsqueeze(2) @ halves).sum(dim=(1, 2))
            # tanh' = 1 - tanh^2 = 4 (1/4 - halves^2)
            slopes = torch.addcmul(quarter, halves, halves, value=-1, out=halves)
            slopes *= upstream.unsqueeze(3)
            grad_query[step.lanes, step.rows] = slopes.sum(dim=2)
            grad_key[step.lanes] += slopes.sum(dim=1)
        outer = 4 * vector[:, None]
        return grad_query.mul_(outer), grad_key.mul_(outer), grad_vector.mul_(-2)


def additive_scores(
    query: Float[Tensor, "batch heads query_length width"],
    key: Float[Tensor, "batch heads key_length width"],
    vector: Float[Tensor, "vector_heads width"],
) -> Float[Tensor, "batch heads query_length key_length"]:
    """Score each pair by vector · tanh(query + key); `vector` has a row a head or one for all."""
    batch, heads, query_length, width = query.shape
    lane_vectors = vector.expand(batch, heads, width).flatten(0, 1)
    scores = _AdditiveScores.apply(  # type: ignore[no-untyped-call]
        query.flatten(0, 1), key.flatten(0, 1), lane_vectors
    )
    return cast(Tensor, scores).view(batch, heads, query_length, key.shape[2])
