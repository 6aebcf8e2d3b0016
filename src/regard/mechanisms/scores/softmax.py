"""Base class of softmax attention: weights = softmax(scores), output = weights @ values.

A subclass defines the scores; this file derives all methods of the mechanism interface from them. The
decoding state is a KV cache. Subclasses with a faster path to the output override `attend`.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.counter import SOFTMAX_OPS
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Capabilities,
    Key,
    Mechanism,
    Output,
    Query,
    ScoreBias,
    Step,
    Value,
    Weights,
    repeat_heads,
)
from regard.core.normalise import softmax_over_keys
from regard.mechanisms.scores.kv_cache import KVCache

# The positions of queries or keys: one row for all examples, or one per example.
Positions = Int[Tensor, "_rows _length"]


def boolean_ops(shape: AttentionShape) -> int:
    """Elementwise operations of `Mask.boolean`, with the causal mask or none."""
    distances = 2 * shape.query_length + shape.pairs
    return distances + (shape.pairs if shape.causal else 0)


def softmax_ops(shape: AttentionShape) -> int:
    """Elementwise operations of `softmax_over_keys` of all pairs, with the causal mask or none."""
    pairs = shape.batch_heads * shape.pairs
    if not shape.causal:
        return SOFTMAX_OPS * pairs
    # Once for all heads: which queries have no key (3 per pair, 1 per query). Then two masked fills.
    return (SOFTMAX_OPS + 2) * pairs + 3 * shape.pairs + shape.query_length


def average_ops(rows: int, width: int) -> int:
    """Elementwise operations of `average`: 4 per row for the guard, and a product per number."""
    return rows * (4 + width)


class ScoredMechanism(Mechanism):
    """Softmax over `scores`; a subclass may also define `project_key`, computed once per key."""

    # An attention window beside the mask; its radius also bounds the decoding state.
    window: Mask = NO_MASK

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            score_bias=True, dropout=True, position_aware=self.window.radius is not None
        )

    @abstractmethod
    def scores(
        self, query: Query, cached_key: Key, *, query_positions: Positions, key_positions: Positions
    ) -> Weights:
        """The score of every query–key pair; `cached_key` is `project_key`, for every query head."""

    def project_key(self, key: Key) -> Float[Tensor, "batch kept_heads key_length cached_dim"]:
        """What is computed once per key and kept in the KV cache; by default the key itself."""
        return key

    def attend(
        self,
        query: Query,
        cached_key: Key,
        value: Value,
        mask: Mask,
        bias: ScoreBias | None,
        dropout: float,
    ) -> Output:
        """The output for whole sequences; a weight is zero with probability `dropout`."""
        weights = self._weigh(query, cached_key, mask, bias)
        return (F.dropout(weights, dropout) if dropout else weights) @ value

    def forward(
        self,
        query: Query,
        key: Key,
        value: Value,
        mask: Mask = NO_MASK,
        *,
        bias: ScoreBias | None = None,
        dropout: float = 0.0,
    ) -> Output:
        self.validate_call(query, key, value, mask)
        heads = query.shape[1]
        cached_key, value = repeat_heads(self.project_key(key), heads), repeat_heads(value, heads)
        return self.attend(query, cached_key, value, mask & self.window, bias, dropout)

    def weights(
        self, query: Query, key: Key, mask: Mask = NO_MASK, *, bias: ScoreBias | None = None
    ) -> Weights:
        self.validate_call(query, key, None, mask)
        cached_key = repeat_heads(self.project_key(key), query.shape[1])
        return self._weigh(query, cached_key, mask & self.window, bias)

    def _weigh(
        self, query: Tensor, cached_key: Tensor, mask: Mask, bias: ScoreBias | None
    ) -> Tensor:
        query_length, key_length = query.shape[2], cached_key.shape[2]
        key_positions = torch.arange(key_length, device=query.device)[None]
        # The last query has the position of the last key.
        query_positions = key_positions.new_tensor([range(key_length - query_length, key_length)])
        scores = self._biased_scores(query, cached_key, query_positions, key_positions, bias)
        allowed = mask.boolean(query_length, key_length, device=query.device)
        return softmax_over_keys(scores, allowed)

    def _biased_scores(
        self, query: Tensor, key: Tensor, here: Tensor, there: Tensor, bias: ScoreBias | None
    ) -> Tensor:
        scores = self.scores(query, key, query_positions=here, key_positions=there)
        return scores if bias is None else scores + bias.values(here, there)

    def empty_state(self, key: Key, value: Value) -> KVCache:
        return KVCache.empty(self.project_key(key), value)

    def extend(self, state: KVCache, key: Key, value: Value, mask: Mask = NO_MASK) -> KVCache:
        self.validate_extend(key, value, mask)
        return self._bounded(state.append(self.project_key(key), value, mask))

    def step(
        self,
        state: KVCache,
        query: Query,
        key: Key,
        value: Value,
        *,
        bias: ScoreBias | None = None,
        **gates: Tensor,
    ) -> Step:
        if query.shape[2] != 1:
            return super().step(state, query, key, value, bias=bias, **gates)
        # A single token, as in decoding, skips the checks of `extend`.
        cached_key = self.project_key(key)
        if self.window.radius is None:
            state = state.append_one(cached_key, value)
        else:
            state = state.append(cached_key, value, NO_MASK)
        state = self._bounded(state)
        return Step(self.read(state, query, bias=bias), state)

    def _bounded(self, extended: KVCache) -> KVCache:
        """The cache, cut to the window and checked against `max_length`."""
        if self.window.radius is not None:
            return extended.latest(self.window.radius + 1)
        limit = self.capabilities.max_length
        # The number of slots bounds that of tokens, which is read only where padding may make a difference.
        if limit is not None and extended.key.shape[2] > limit:
            self.validate_length(int(extended.position.max()))
        return extended

    def read(self, state: KVCache, query: Query, *, bias: ScoreBias | None = None) -> Output:
        heads = query.shape[1]
        query_positions = (state.position - 1)[:, None].expand(-1, query.shape[2])
        key = repeat_heads(state.key, heads)
        scores = self._biased_scores(query, key, query_positions, state.key_positions, bias)
        allowed = None if state.is_full else state.is_token[:, None, None, :]
        return softmax_over_keys(scores, allowed) @ repeat_heads(state.value, heads)

    def score_cost(self, shape: AttentionShape) -> Cost:
        """The cost of the scores, `project_key` and parameters included, if the subclass declares it.

        `Cost.step_matmul_flops` is for one query, one new key, and key_length + 1 keys in the cache.
        """
        raise NotImplementedError

    @property
    def declares_cost(self) -> bool:
        own, base = type(self), ScoredMechanism
        return own.cost is not base.cost or own.score_cost is not base.score_cost

    def cached_key_size(self, shape: AttentionShape) -> int:
        """The number of numbers that `project_key` caches for all keys."""
        return shape.batch_kv_heads * shape.key_length * shape.key_dim

    def cost(self, shape: AttentionShape) -> Cost:
        if not self.declares_cost:
            return super().cost(shape)
        pairs = shape.batch_heads * shape.pairs
        matmul_flops = 2 * pairs * shape.value_dim
        # The weights; under a mask, a copy for masking and one for zeroing empty rows.
        copies = 3 if shape.causal else 1
        read_out = Cost(
            matmul_flops=matmul_flops,
            transcendental_ops=pairs,
            elementwise_ops=softmax_ops(shape) + boolean_ops(shape),
            # The gradients of the weights and of the values.
            backward_matmul_flops=2 * matmul_flops,
            step_matmul_flops=2 * shape.batch_heads * (shape.key_length + 1) * shape.value_dim,
            memory=copies * pairs + shape.output_numbers,
            state=self.cached_key_size(shape) + shape.value_numbers,
            sequential_steps=1,
            max_path_length=1,
        )
        return self.score_cost(shape) + read_out
