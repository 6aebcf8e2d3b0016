"""Additive attention: score = vᵀ tanh(W_q q + W_k k) (Bahdanau et al. 2015).

A small network instead of a dot product, so query and key may differ in width; it costs a tanh per
query–key pair and hidden unit. Keys are projected once and cached projected.

Written plainly the scores need query_length · key_length · hidden_dim numbers. Here pairs are computed a
few query rows at a time, and the backward pass recomputes their tanh.

Since tanh(x) = 1 − 2 / (exp(2x) + 1) and exp(2(a + b)) = exp(2a) exp(2b), the exponentials are computed
once per position instead of once per pair. Their product stays in range while |a| and |b| are within a
quarter of the largest exponent; beyond that, tanh itself is called. Both agree up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.core.mechanism import Key, Query, Weights, first_order_only, repeat_heads
from regard.core.options import PositiveInt, validated
from regard.mechanisms.scores.dot_product import head_product
from regard.mechanisms.scores.softmax import Positions, ScoredMechanism

# Entries of the temporary in one step: 2 MB of float32, which fits in the CPU cache.
STEP_ENTRIES = 1 << 19


class _Step(NamedTuple):
    """Some query rows of some lanes; a lane is one head of one example."""

    lanes: slice
    rows: slice

    def halves(self, query: Tensor, key: Tensor, *, exponential: bool) -> Tensor:
        """−tanh / 2 of each pair's sum, from exp(2x) or x: (lanes, rows, keys, width)."""
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
    # Several lanes share a step only if all rows of a lane do.
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
    # A fake tensor, used for counting FLOPs, has no values: they are assumed to be small.
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
    @first_order_only
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
) -> Weights:
    """vector · tanh(query + key) of every pair; `vector` has one row per head or one for all."""
    batch, heads, query_length, width = query.shape
    lane_vectors = vector.expand(batch, heads, width).flatten(0, 1)
    scores = _AdditiveScores.apply(  # type: ignore[no-untyped-call]
        query.flatten(0, 1), key.flatten(0, 1), lane_vectors
    )
    return cast(Tensor, scores).view(batch, heads, query_length, key.shape[2])


class AdditiveAttention(ScoredMechanism):
    """score = vᵀ tanh(W_q query + W_k key)   (Bahdanau et al. 2015, app. A.1.2); "concat" in Luong's.

    `hidden_dim` defaults to `key_dim`. There is one set of parameters per head, or one for all heads.
    """

    @validated
    def __init__(
        self,
        *,
        query_dim: PositiveInt,
        key_dim: PositiveInt,
        hidden_dim: PositiveInt | None = None,
        num_heads: PositiveInt = 1,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        hidden_dim = key_dim if hidden_dim is None else hidden_dim
        self.query_weight = nn.Parameter(torch.empty(num_heads, query_dim, hidden_dim))
        self.key_weight = nn.Parameter(torch.empty(num_heads, key_dim, hidden_dim))
        self.score_vector = nn.Parameter(torch.empty(num_heads, hidden_dim))
        nn.init.normal_(self.query_weight, std=query_dim**-0.5)
        nn.init.normal_(self.key_weight, std=key_dim**-0.5)
        nn.init.normal_(self.score_vector, std=hidden_dim**-0.5)

    def project_key(self, key: Key) -> Float[Tensor, "batch kept_heads key_length hidden_dim"]:
        # Each query head has weights of its own, so a shared key is repeated first.
        heads = max(len(self.key_weight), key.shape[1])
        return head_product(repeat_heads(key, heads), self.key_weight)

    def scores(
        self, query: Query, cached_key: Key, *, query_positions: Positions, key_positions: Positions
    ) -> Weights:
        projected = head_product(query, self.query_weight)
        return additive_scores(projected, cached_key, self.score_vector)

    def cached_key_size(self, shape: AttentionShape) -> int:
        return self._kept_rows(shape) * shape.key_length * self.score_vector.shape[1]

    def _kept_rows(self, shape: AttentionShape) -> int:
        return max(shape.batch_kv_heads, shape.batch_size * len(self.key_weight))

    def score_cost(self, shape: AttentionShape) -> Cost:
        _, query_dim, hidden_dim = self.query_weight.shape
        queries = shape.batch_heads * shape.query_length
        keys, kept = shape.batch_heads * shape.key_length, self._kept_rows(shape) * shape.key_length
        pairs = shape.batch_heads * shape.pairs
        working = min(STEP_ENTRIES, pairs * hidden_dim)
        projected = 2 * hidden_dim * (queries * query_dim + kept * shape.key_dim)
        one_token = shape.batch_heads * query_dim + self._kept_rows(shape) * shape.key_dim
        return Cost(
            matmul_flops=projected + 2 * hidden_dim * pairs,
            # An exponential per position and a division per pair.
            transcendental_ops=hidden_dim * (queries + keys + pairs),
            # Absolute value, maximum and doubling per position, 3 operations per pair, the vector
            # doubled, and the range checks of queries and keys.
            elementwise_ops=hidden_dim * (3 * (queries + keys + pairs) + shape.batch_heads) + 2,
            # Of the scores only the vector's gradient is a matrix product.
            backward_matmul_flops=2 * projected + 2 * hidden_dim * pairs,
            step_matmul_flops=2
            * hidden_dim
            * (one_token + shape.batch_heads * (shape.key_length + 1)),
            memory=pairs + 2 * hidden_dim * (queries + keys) + working,
            parameters=self.num_parameters,
            sequential_steps=2,
        )
