"""Hybrid attention: exact softmax in a sliding window, Taylor linear attention beyond it.

    weight ∝ exp(s) for the last r + 1 keys, and Σ_{m<K} s^m/m! for all earlier ones,  s = q·k/√d

Both parts share one denominator (the combination of Arora et al. 2024; the shared denominator of Zhang
et al. 2024). Linear in length: keys that leave the window are added to a running sum.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Capabilities,
    Key,
    Mechanism,
    Output,
    Query,
    Value,
    Weights,
    repeat_heads,
    select_rows,
)
from regard.core.normalise import average, inverse, min_floor, noise_floor
from regard.core.options import NonNegativeInt, PositiveInt, validated
from regard.mechanisms.kernels.power_series import MAX_FEATURES, taylor_kernel
from regard.mechanisms.recurrences.recurrence import Tensors, chunked_scan
from regard.mechanisms.scores.kv_cache import KVCache
from regard.mechanisms.scores.softmax import average_ops


class TaylorWindowState(NamedTuple):
    """The KV cache of the window, and the sums over tokens that have left it."""

    key: Float[Tensor, "batch kv_heads slots key_dim"]
    value: Float[Tensor, "batch kv_heads slots value_dim"]
    key_positions: Int[Tensor, "batch slots"]
    position: Int[Tensor, " batch"]
    memory: Float[Tensor, "batch kv_heads num_features value_dim_and_one"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        return select_rows(self, index)


class TaylorWindowAttention(Mechanism):
    """Softmax over the last `radius` + 1 keys, `num_terms` Taylor terms for the rest."""

    @validated
    def __init__(
        self,
        *,
        key_dim: PositiveInt,
        radius: NonNegativeInt = 64,
        num_terms: PositiveInt = 3,
        chunk_size: PositiveInt = 64,
        max_features: PositiveInt = MAX_FEATURES,
    ) -> None:
        super().__init__()
        self.scale = key_dim**-0.5
        self.kernel = taylor_kernel(
            key_dim=key_dim, num_terms=num_terms, scale=self.scale, max_features=max_features
        )
        self.radius = radius
        self.chunk_size = chunk_size
        self.signed = num_terms % 2 == 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            roles=frozenset({"self"}),
            masks=frozenset({"causal", "padding"}),
            requires_causal=True,
            rows_sum_to_one=not self.signed,
            nonnegative=not self.signed,
            position_aware=True,
        )

    def forward(self, query: Query, key: Key, value: Value, mask: Mask = NO_MASK) -> Output:
        self.validate_call(query, key, value, mask)
        rows, heads = min(query.shape[2], key.shape[2]), query.shape[1]
        if rows == 0:
            return value.new_zeros(*query.shape[:3], value.shape[-1])
        keep = None if mask.lengths is None else mask.keep(key.shape[2])
        counted, key = _counted(value, key, keep)
        key, counted = repeat_heads(key, heads), repeat_heads(counted, heads)
        aligned = pad(query, (0, 0, key.shape[2] - query.shape[2], 0))
        sums = chunked_scan(
            self._chunk_step,
            self._empty_sums(key, counted),
            (aligned, key, counted),
            chunk_size=self.chunk_size,
        )[:, :, -rows:]
        output = average(sums[..., :-1], sums[..., -1], floor=self._floor(query))
        # Queries before the first key have no key to attend to.
        return pad(output, (0, 0, query.shape[2] - rows, 0))

    def _empty_sums(self, key: Tensor, counted: Tensor) -> Tensors:
        batch_and_heads, features = key.shape[:2], self.kernel.num_features(key.shape[-1])
        return (
            counted.new_zeros(*batch_and_heads, features, counted.shape[-1]),
            key.new_zeros(*batch_and_heads, self.radius, key.shape[-1]),
            counted.new_zeros(*batch_and_heads, self.radius, counted.shape[-1]),
        )

    def _chunk_step(self, state: Tensors, chunk: Tensors) -> tuple[Tensor, Tensors]:
        """The state is (memory, keys of the window, values of the window)."""
        (memory, window_key, window_value), (query, key, value) = state, chunk
        length = query.shape[2]
        near_key = torch.cat([window_key, key], dim=2)
        near_value = torch.cat([window_value, value], dim=2)
        distance = self.radius + _distances(length, near_key.shape[2], query.device)
        # The column of ones is zero where there is no token: before the first one, and in padding.
        real = (near_value[..., -1] > 0).unsqueeze(-2)
        output = self._sums(query, near_key, near_value, memory, distance, real)
        left = self.kernel.key_features(near_key[:, :, :length])
        memory = memory + left.transpose(-2, -1) @ near_value[:, :, :length]
        return output, (memory, near_key[:, :, length:], near_value[:, :, length:])

    def _sums(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        memory: Tensor,
        distance: Tensor,
        real: Tensor,
    ) -> Tensor:
        """Numerators, and denominators in the last column, up to a factor per row."""
        remote = self.kernel.query_features(query) @ memory
        pairs, shrink = self._pairs(query, key, distance, real, remote[..., -1:])
        return pairs @ value + shrink * remote

    def _pairs(
        self, query: Tensor, key: Tensor, distance: Tensor, real: Tensor, remote: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The kernel of every pair divided by e^m, and e^−m; `remote` is the sum over other keys.

        m is the largest window score or the logarithm of the sum beyond, whichever is larger. The factor
        cancels, and the denominator, at least about one, cannot overflow.
        """
        dots = query @ key.transpose(-2, -1)
        near = real & (distance >= 0) & (distance <= self.radius)
        scores = (dots * self.scale).masked_fill(~near, float("-inf"))
        far = self.kernel.curve(dots).masked_fill(~real | (distance <= self.radius), 0.0)
        with torch.no_grad():
            far_sum = (far.sum(dim=-1, keepdim=True) + remote).abs()
            # The padded column is for rows without keys.
            best = pad(scores, (0, 1), value=float("-inf")).amax(dim=-1, keepdim=True)
            best = torch.maximum(best, far_sum.log())
            best = best.masked_fill(best.isneginf(), 0.0)
            # Without keys beyond the window the factor could be infinite, and 0 · ∞ is NaN.
            shrink = (-best).exp().masked_fill(far_sum == 0, 0.0)
        return (scores - best).exp() + far * shrink, shrink

    def weights(self, query: Query, key: Key, mask: Mask = NO_MASK) -> Weights:
        self.validate_call(query, key, None, mask)
        query_length, key_length = query.shape[2], key.shape[2]
        distance = key_length - query_length + _distances(query_length, key_length, query.device)
        allowed = mask.boolean(query_length, key_length, device=query.device)
        assert allowed is not None  # validated as causal
        key = repeat_heads(key, query.shape[1])
        pairs, _ = self._pairs(query, key, distance, allowed, remote=query.new_zeros(()))
        return pairs * inverse(pairs.sum(dim=-1), floor=self._floor(query))[..., None]

    def _floor(self, query: Tensor) -> Tensor:
        # Sums are of order one, so noise is the rounding error of one; positive terms do not cancel.
        one = query.new_ones(1, 1, 1)
        return noise_floor(one) if self.signed else one * min_floor(query.dtype)

    def empty_state(self, key: Key, value: Value) -> TaylorWindowState:
        features = self.kernel.num_features(key.shape[-1])
        memory = value.new_zeros(*value.shape[:2], features, value.shape[-1] + 1)
        return TaylorWindowState(*KVCache.empty(key, value), memory)

    def extend(
        self, state: TaylorWindowState, key: Key, value: Value, mask: Mask = NO_MASK
    ) -> TaylorWindowState:
        self.validate_extend(key, value, mask)
        window = KVCache(*state[:-1]).append(key, value, mask)
        gone = window.is_token & (window.position[:, None] - 1 - window.key_positions > self.radius)
        counted, leaving = _counted(window.value, window.key, gone)
        features = self.kernel.key_features(leaving).transpose(-2, -1)
        return TaylorWindowState(*window.latest(self.radius + 1), state.memory + features @ counted)

    def read(self, state: TaylorWindowState, query: Query) -> Output:
        heads, window = query.shape[1], KVCache(*state[:-1])
        distance = (window.position[:, None] - 1 - window.key_positions)[:, None, None, :]
        counted, _ = _counted(state.value, state.key, None)
        sums = self._sums(
            query,
            repeat_heads(state.key, heads),
            repeat_heads(counted, heads),
            repeat_heads(state.memory, heads),
            distance,
            window.is_token[:, None, None, :],
        )
        return average(sums[..., :-1], sums[..., -1], floor=self._floor(query))

    def cost(self, shape: AttentionShape) -> Cost:
        features = self.kernel.num_features(shape.key_dim)
        counted = shape.value_dim + 1
        matmul_flops = transcendental_ops = elementwise_ops = once = last = 0
        for start in range(0, shape.key_length, self.chunk_size):
            length = min(self.chunk_size, shape.key_length - start)
            near = self.radius + length
            pairs = length * near
            last = 2 * pairs * (shape.key_dim + counted) + 4 * length * features * counted
            matmul_flops += last
            transcendental_ops += pairs + 2 * length
            # Per pair: two tests for the window and two beyond it, the curve, and 8 operations for the
            # sums; per query 9 for its factor and two sums; per key two tests for padding.
            elementwise_ops += (12 + self.kernel.curve_ops) * pairs + 2 * near
            elementwise_ops += length * (9 + 2 * counted) + features * counted
            # Distances are the same for all heads.
            once += 5 * pairs
        elementwise_ops += self.kernel.feature_cost(
            queries=shape.key_length, keys=shape.key_length, width=shape.key_dim
        ).elementwise_ops
        # The division is one reciprocal per query that has keys.
        queries = min(shape.query_length, shape.key_length)
        transcendental_ops += queries
        elementwise_ops += average_ops(queries, shape.value_dim)
        state = features * counted
        kept = min(self.radius + 1, shape.key_length) * (shape.key_dim + shape.value_dim)
        chunk = min(self.chunk_size, shape.key_length)
        working = 2 * chunk * features + 6 * chunk * (self.radius + chunk)
        return Cost(
            matmul_flops=shape.batch_heads * matmul_flops,
            transcendental_ops=shape.batch_heads * transcendental_ops,
            elementwise_ops=shape.batch_heads * elementwise_ops + once,
            # All but the last chunk are recomputed for the states, then all are differentiated.
            backward_matmul_flops=shape.batch_heads * (4 * matmul_flops - last),
            step_matmul_flops=self._step_flops(shape),
            memory=shape.batch_heads * (3 * shape.key_length * counted + 2 * state + working),
            parameters=self.num_parameters,
            state=shape.batch_kv_heads * (state + kept),
            sequential_steps=-(-shape.key_length // self.chunk_size),
            max_path_length=1,
        )

    def _step_flops(self, shape: AttentionShape) -> int:
        features, counted = self.kernel.num_features(shape.key_dim), shape.value_dim + 1
        # Features are computed for every slot and the new token, though only one leaves the window.
        slots = min(self.radius + 1, shape.key_length) + 1
        leaving = 2 * shape.batch_kv_heads * slots * features * counted
        near = min(self.radius + 1, shape.key_length + 1)
        return leaving + 2 * shape.batch_heads * (
            features * counted + near * (shape.key_dim + counted)
        )


def _distances(query_length: int, key_length: int, device: torch.device) -> Tensor:
    """Query index minus key index, for every pair."""
    rows = torch.arange(query_length, device=device)[:, None]
    return rows - torch.arange(key_length, device=device)


def _counted(value: Tensor, key: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor]:
    """The values with a column of ones for the denominator, and the keys; zeros where not kept."""
    counted = pad(value, (0, 1), value=1.0)
    if keep is None:
        return counted, key
    dropped = ~keep[:, None, :, None]
    return counted.masked_fill(dropped, 0.0), key.masked_fill(dropped, 0.0)
