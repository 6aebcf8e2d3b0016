"""Softmax of dot products through a fused kernel: the base class of dot, scaled dot, general and window.

They differ in the scale, in a projection of the query, and in the window. `forward` uses torch's fused
attention (SDPA) or the blocked kernel; `weights` recomputes the same numbers explicitly.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.counter import ATTENTION_OPS, SOFTMAX_OPS, attention_pairs
from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.core.mechanism import Key, Output, Query, ScoreBias, Value, Weights, repeat_heads
from regard.core.normalise import softmax_over_keys
from regard.mechanisms.scores.blocked import (
    ROWS,
    STEP_SCORES,
    Block,
    blocks_pay,
    keeps_weights,
    plan_blocks,
    reach,
    softmax_attention,
)
from regard.mechanisms.scores.kv_cache import KVCache
from regard.mechanisms.scores.softmax import Positions, ScoredMechanism


def softmax_attention_cost(shape: AttentionShape, *, radius: int | None) -> Cost:
    """The cost of `softmax_attention`: forward without gradients, and what training adds.

    With gradients, a causal call may use blocks where it otherwise would not, and then computes fewer
    pairs.
    """
    if _is_fused(shape, radius=radius):
        pairs = _fused_pairs(shape)
        elementwise_ops = ATTENTION_OPS * pairs
    else:
        blocks = _blocks(shape, radius=radius)
        pairs = shape.batch_heads * sum(block.scores for block in blocks)
        elementwise_ops = _blocked_ops(shape, blocks, radius=radius)
    matmul_flops = 2 * pairs * (shape.key_dim + shape.value_dim)
    return Cost(
        matmul_flops=matmul_flops,
        transcendental_ops=pairs,
        elementwise_ops=elementwise_ops,
        backward_matmul_flops=_training_flops(shape, radius=radius) - matmul_flops,
        memory=shape.output_numbers + _working_numbers(shape, radius=radius),
        sequential_steps=1,
    )


def _is_fused(shape: AttentionShape, *, radius: int | None) -> bool:
    aligned = shape.query_length == shape.key_length
    return radius is None and shape.key_dim == shape.value_dim and (aligned or not shape.causal)


def _fused_pairs(shape: AttentionShape) -> int:
    pairs = attention_pairs(shape.query_length, shape.key_length, causal=shape.causal)
    return shape.batch_heads * pairs


def _blocks(shape: AttentionShape, *, radius: int | None) -> list[Block]:
    return plan_blocks(
        query_length=shape.query_length,
        key_length=shape.key_length,
        causal=shape.causal,
        radius=radius,
    )


def _blocked_ops(shape: AttentionShape, blocks: list[Block], *, radius: int | None) -> int:
    scores = sum(block.scores for block in blocks)
    softmax = SOFTMAX_OPS * shape.batch_heads * scores
    if not blocks or (not shape.causal and radius is None):
        return softmax
    before, after = reach(shape.query_length, shape.key_length, shape.causal, radius)
    # The band mask is built once, and added to the scores.
    masked = softmax + ROWS * (before + ROWS + after) + shape.batch_heads * scores
    if shape.query_length <= shape.key_length:
        return masked
    # Rows without a key are found once, and zeroed in every head.
    return (
        masked
        + scores
        + sum(block.stop - block.start for block in blocks)
        + shape.batch_heads * scores
    )


def _training_flops(shape: AttentionShape, *, radius: int | None) -> int:
    in_blocks = shape.causal and blocks_pay(
        rows=shape.batch_heads, length=shape.query_length, width=shape.key_dim
    )
    # Forward, and the gradients of weights, values, queries and keys; in backward, the scores again.
    once, again = 6 * (shape.key_dim + shape.value_dim), 2 * shape.key_dim
    if _is_fused(shape, radius=radius) and not in_blocks:
        return _fused_pairs(shape) * (once + again)
    pairs = sum(block.scores for block in _blocks(shape, radius=radius))
    held = (shape.query_length + shape.key_length) * (shape.key_dim + shape.value_dim)
    if keeps_weights(weights=pairs, held=held):
        return shape.batch_heads * pairs * once
    return shape.batch_heads * pairs * (once + again)


def _working_numbers(shape: AttentionShape, *, radius: int | None) -> int:
    """Peak numbers beside the output: the scores of one block, and the mask."""
    if _is_fused(shape, radius=radius):
        return shape.batch_heads * shape.query_length
    largest = max((block.scores for block in _blocks(shape, radius=radius)), default=0)
    lanes = min(shape.batch_heads, max(1, STEP_SCORES // max(largest, 1)))
    before, after = reach(shape.query_length, shape.key_length, shape.causal, radius)
    # The band mask is built once, from three boolean tensors of its size.
    band = 4 * ROWS * (before + ROWS + after) if shape.causal or radius is not None else 0
    return lanes * largest + band


# Up to this batch × heads, torch's fused kernel is the fastest `read`: there call overhead dominates. In
# training it would recompute the scores in the backward pass.
MAX_FUSED_READ = 64


def _max_path_length(radius: int | None, farthest: int) -> int:
    if radius is None:
        return 1
    # A window moves information by its radius per layer; radius 0 never does.
    return -(-farthest // radius) if radius else 0


class FusedMechanism(ScoredMechanism):
    """softmax(scale · prepare(query) · key)."""

    def prepare(self, query: Query) -> Float[Tensor, "batch heads query_length key_dim"]:
        """Transform the query before the dot product; by default it is unchanged."""
        return query

    def scale(self, key_dim: int) -> float:
        """The factor on the dot product."""
        raise NotImplementedError

    def scores(
        self, query: Query, cached_key: Key, *, query_positions: Positions, key_positions: Positions
    ) -> Weights:
        scale = self.scale(cached_key.shape[-1])
        return (self.prepare(query) * scale) @ cached_key.transpose(-2, -1)

    def attend(
        self,
        query: Query,
        cached_key: Key,
        value: Value,
        mask: Mask,
        bias: ScoreBias | None,
        dropout: float,
    ) -> Output:
        prepared, scale = self.prepare(query), self.scale(cached_key.shape[-1])
        if prepared.shape[-1] != cached_key.shape[-1]:
            raise RegardError(
                f"{self.name} multiplies queries of width {prepared.shape[-1]} with keys of width "
                f"{cached_key.shape[-1]}: they must be equal. Use general or additive."
            )
        if not dropout:
            return softmax_attention(
                prepared,
                cached_key,
                value,
                scale=scale,
                causal=mask.causal,
                radius=mask.radius,
                lengths=mask.lengths,
                allowed=mask.allowed,
                bias=bias,
            )
        # Blocks have no dropout, and torch's kernel aligns the first query with the first key.
        is_causal = mask.causal and query.shape[2] == cached_key.shape[2]
        if bias is not None or mask.kinds != ({"causal"} if is_causal else set()):
            return super().attend(query, cached_key, value, mask, bias, dropout)
        return F.scaled_dot_product_attention(
            prepared, cached_key, value, dropout_p=dropout, is_causal=is_causal, scale=scale
        )

    def read(self, state: KVCache, query: Query, *, bias: ScoreBias | None = None) -> Output:
        min_length, slots = state.min_length, state.key.shape[2]
        if bias is not None or min_length == 0:
            return super().read(state, query, bias=bias)
        batch_size, heads, query_length = query.shape[:3]
        prepared, scale = self.prepare(query), self.scale(state.key.shape[-1])
        key, value = repeat_heads(state.key, heads), repeat_heads(state.value, heads)
        is_plain = min_length >= slots and key.shape[-1] == value.shape[-1]
        if is_plain and batch_size * heads <= MAX_FUSED_READ and not torch.is_grad_enabled():
            return F.scaled_dot_product_attention(prepared, key, value, scale=scale)
        # The same numbers in fewer calls: call overhead dominates a decoding step.
        scores = (prepared * scale).flatten(0, 1) @ key.flatten(0, 1).transpose(1, 2)
        if min_length < slots:
            empty = ~state.is_token[:, None, None, :]
            scores.view(batch_size, heads, query_length, -1).masked_fill_(empty, float("-inf"))
        output = softmax_over_keys(scores, None) @ value.flatten(0, 1)
        return output.view(batch_size, heads, query_length, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        """The cost of `prepare`; the scores are part of the fused kernel."""
        return Cost(parameters=self.num_parameters)

    def _slots(self, key_length: int) -> int:
        """The number of tokens in the KV cache after `key_length` tokens."""
        return key_length if self.window.radius is None else min(key_length, self.window.radius + 1)

    def cost(self, shape: AttentionShape) -> Cost:
        radius, width = self.window.radius, shape.key_dim + shape.value_dim
        farthest = max(shape.query_length, shape.key_length, 2) - 1
        decoding = Cost(
            step_matmul_flops=2 * shape.batch_heads * self._slots(shape.key_length + 1) * width,
            state=shape.batch_kv_heads * self._slots(shape.key_length) * width,
            max_path_length=_max_path_length(radius, farthest),
        )
        return self.score_cost(shape) + softmax_attention_cost(shape, radius=radius) + decoding
