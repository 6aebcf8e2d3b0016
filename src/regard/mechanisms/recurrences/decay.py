"""Linear attention with a decaying memory: retention (RetNet) and gated linear attention (GLA).

    S_t = diag(α_t) S_{t−1} + k_t v_tᵀ

    retention  α is fixed, one per head, and differs between heads
    gated      α is computed from the token, one per key channel

Only ratios of decays that are at most one are formed, so nothing overflows.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.core.cost import Cost
from regard.core.device import float64_on
from regard.core.errors import RegardError
from regard.core.mechanism import Gate, Key, Query, Weights
from regard.core.options import PositiveInt, validated
from regard.mechanisms.recurrences.recurrence import Control, RecurrentMechanism, Tensors

# Per-channel decays are computed for every pair within a block; across blocks they factor.
BLOCK = 16


class DecayedMechanism(RecurrentMechanism):
    """Weight of key j at query i: q_i · (Π_{j<t≤i} α_t ⊙ k_j). The control is log α."""

    def chunk_step(self, state: Tensors, chunk: Tensors) -> tuple[Tensor, Tensors]:
        (memory,), (query, key, value, log_decay) = state, chunk
        elapsed = log_decay.cumsum(dim=-2)
        final = elapsed[..., -1:, :]
        pairs = _decayed_pairs(query, key, elapsed)
        output = pairs @ value + (query * elapsed.exp()) @ memory
        written = (key * (final - elapsed).exp()).transpose(-2, -1) @ value
        return output, (memory * final.exp().transpose(-2, -1) + written,)

    def pair_weights(self, query: Query, key: Key, control: Control) -> Weights:
        # In float64: over a long sequence, differences of the cumulative sum would lose digits.
        return _decayed_pairs(query, key, control.to(float64_on(control.device)).cumsum(dim=-2))

    def control_dim(self, key_dim: int) -> int:
        """The number of decays per position."""
        raise NotImplementedError

    def chunk_cost(self, length: int, key_dim: int, value_dim: int) -> Cost:
        channels = self.control_dim(key_dim)
        matmul_flops = 4 * length * key_dim * value_dim + 2 * length**2 * value_dim
        carried = Cost(
            matmul_flops=matmul_flops,
            transcendental_ops=(2 * length + 1) * channels,
            # The decays' cumulative sums and differences, decayed queries and keys, the sum of both
            # outputs; the memory decayed and added to.
            elementwise_ops=length * (2 * channels + 2 * key_dim + value_dim)
            + 2 * key_dim * value_dim,
            backward_matmul_flops=2 * matmul_flops,
            memory=2 * key_dim * value_dim + length * (3 * key_dim + 2 * value_dim),
        )
        return carried + _pairs_cost(length, key_dim, channels)


def _decayed_pairs(
    query: Float[Tensor, "batch heads length key_dim"],
    key: Float[Tensor, "batch heads length key_dim"],
    elapsed: Float[Tensor, "batch heads length channels"],
) -> Float[Tensor, "batch heads length length"]:
    """q_i · (exp(elapsed_i − elapsed_j) ⊙ k_j) for j ≤ i, zero elsewhere."""
    length = query.shape[2]
    later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    if elapsed.shape[-1] == 1:
        ratio = (elapsed - elapsed.transpose(-2, -1)).masked_fill(later, float("-inf")).exp()
        return (query @ key.transpose(-2, -1)) * ratio.to(query.dtype)
    rows = []
    for start in range(0, length, BLOCK):
        block = slice(start, min(start + BLOCK, length))
        since = elapsed[:, :, block]
        gap = since.unsqueeze(3) - since.unsqueeze(2)
        ratio = gap.masked_fill(later[block, block, None], float("-inf")).exp().to(query.dtype)
        within = torch.einsum("bhid,bhijd,bhjd->bhij", query[:, :, block], ratio, key[:, :, block])
        if start > 0:
            origin = elapsed[:, :, start - 1 : start]
            late = query[:, :, block] * (since - origin).exp().to(query.dtype)
            early = key[:, :, :start] * (origin - elapsed[:, :, :start]).exp().to(key.dtype)
            within = torch.cat([late @ early.transpose(-2, -1), within], dim=-1)
        rows.append(torch.nn.functional.pad(within, (0, length - block.stop)))
    return torch.cat(rows, dim=2)


def _pairs_cost(length: int, key_dim: int, channels: int) -> Cost:
    """The cost of `_decayed_pairs` for one head."""
    if channels == 1:
        return Cost(
            matmul_flops=2 * length**2 * key_dim,
            transcendental_ops=length**2,
            elementwise_ops=3 * length**2,  # difference, mask, product
            backward_matmul_flops=4 * length**2 * key_dim,
            memory=3 * length**2,
        )
    matmul_flops = transcendental_ops = elementwise_ops = 0
    for start in range(0, length, BLOCK):
        size = min(BLOCK, length - start)
        transcendental_ops += size * size * key_dim
        elementwise_ops += 3 * size * size * key_dim  # difference, mask, product with the query
        matmul_flops += 2 * size * size * key_dim
        if start > 0:
            transcendental_ops += (size + start) * key_dim
            elementwise_ops += 2 * (size + start) * key_dim  # difference, product
            matmul_flops += 2 * size * start * key_dim
    return Cost(
        matmul_flops=matmul_flops,
        transcendental_ops=transcendental_ops,
        elementwise_ops=elementwise_ops,
        backward_matmul_flops=2 * matmul_flops,
        memory=2 * length**2 + 3 * BLOCK**2 * key_dim,
    )


def _slow_decay(raw: Tensor) -> Tensor:
    """log of sigmoid(raw)^(1/16): a decay near one at the start of training (GLA, sec. 4.4)."""
    return functional.logsigmoid(raw) / 16.0


class GatedAttention(DecayedMechanism):
    """S_t = diag(exp(log_decay_t)) S_{t−1} + k_t v_tᵀ   (Yang et al. 2024, sec. 4)."""

    gates: ClassVar[tuple[Gate, ...]] = (Gate("log_decay", "key_dim", _slow_decay),)

    def control(self, key: Key, *, log_decay: Control) -> Control:
        # e^−100 is zero in effect; −∞ would make differences undefined.
        return log_decay.clamp(min=-100.0)

    def control_dim(self, key_dim: int) -> int:
        return key_dim

    def chunk_cost(self, length: int, key_dim: int, value_dim: int) -> Cost:
        clamped = Cost(elementwise_ops=length * key_dim)
        return super().chunk_cost(length, key_dim, value_dim) + clamped


class RetentionAttention(DecayedMechanism):
    """weight of key j at query i = γ_h^(i−j) · query · key / √key_dim   (Sun et al. 2023, sec. 2).

    γ_h = 1 − 2^(−5−h) for head h. RetNet's normalisation of the output is left to the layer.
    """

    @validated
    def __init__(self, *, num_heads: PositiveInt = 1, chunk_size: PositiveInt = 64) -> None:
        super().__init__(chunk_size=chunk_size)
        self.num_heads = num_heads
        self.decays = [1 - 2.0 ** (-5 - head) for head in range(num_heads)]

    def memory_heads(self, num_kv_heads: int) -> int:
        # Heads that share keys and values have different decays.
        return max(num_kv_heads, len(self.decays))

    def control(self, key: Key) -> Control:
        if len(self.decays) not in (1, key.shape[1]):
            raise RegardError(
                f"{self.name} was built for num_heads={len(self.decays)} and got {key.shape[1]} heads: "
                "build it for that number of heads, or with num_heads=1 for one decay shared by all."
            )
        log_decay = key.new_tensor([math.log(decay) for decay in self.decays])
        return log_decay[None, :, None, None].expand(key.shape[0], key.shape[1], key.shape[2], 1)

    def control_dim(self, key_dim: int) -> int:
        return 1
