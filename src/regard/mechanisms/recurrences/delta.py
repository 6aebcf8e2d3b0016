"""Linear attention with the delta rule (DeltaNet): a write replaces what the memory holds for its key.

    S_t = S_{t−1} + β_t k_t (v_t − S_{t−1}ᵀ k_t)ᵀ        (Schlag et al. 2021)

Other linear attention adds; here, writing the same key again with β = 1 replaces its value. A chunk is
one triangular solve (Yang et al. 2024, the WY form). Keys are normalised to unit length; otherwise
repeated writes diverge.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.core.cost import Cost
from regard.core.mechanism import Gate, Key, Query, Weights
from regard.mechanisms.recurrences.recurrence import Control, RecurrentMechanism, Tensors


class DeltaAttention(RecurrentMechanism):
    """Linear attention with the delta rule; the gate `strength` is β in (0, 1) of every key."""

    gates: ClassVar[tuple[Gate, ...]] = (Gate("strength", "one", torch.sigmoid),)

    def control(self, key: Key, *, strength: Control) -> Control:
        return strength

    def prepare(self, key: Key) -> Key:
        return functional.normalize(key, dim=-1)

    def chunk_step(self, state: Tensors, chunk: Tensors) -> tuple[Tensor, Tensors]:
        (memory,), (query, key, value, strength) = state, chunk
        # What each key writes: its value minus what memory and earlier keys already hold for it.
        written = _solve(key, strength, value - key @ memory)
        output = query @ memory + (query @ key.transpose(-2, -1)).tril() @ written
        return output, (memory + key.transpose(-2, -1) @ written,)

    def pair_weights(self, query: Query, key: Key, control: Control) -> Weights:
        one_hot = torch.eye(key.shape[2], dtype=key.dtype, device=key.device)
        written = _solve(key, control, one_hot.expand(*key.shape[:2], -1, -1))
        return (query @ key.transpose(-2, -1)).tril() @ written

    def chunk_cost(self, length: int, key_dim: int, value_dim: int) -> Cost:
        matmul_flops = (
            6 * length * key_dim * value_dim + 4 * length**2 * key_dim + 2 * length**2 * value_dim
        )
        solve = length**2 * value_dim
        return Cost(
            matmul_flops=matmul_flops + solve,
            # The normalisation of every key.
            transcendental_ops=length * key_dim,
            # The norm of every key, clamped; three sums or products of values; the strengths and the
            # identity of the solve; the memory's sum.
            elementwise_ops=length * (key_dim + 1)
            + 3 * length * value_dim
            + 2 * length**2
            + key_dim * value_dim,
            # The gradient of a solve is another solve, and a product for the triangular matrix.
            backward_matmul_flops=2 * matmul_flops + solve + 2 * length**2 * value_dim,
            memory=2 * key_dim * value_dim + 3 * length**2 + 3 * length * value_dim,
        )


def _solve(
    key: Float[Tensor, "batch heads length key_dim"],
    strength: Float[Tensor, "batch heads length 1"],
    target: Float[Tensor, "batch heads length width"],
) -> Float[Tensor, "batch heads length width"]:
    """The u with u_t = β_t (target_t − Σ_{j<t} (k_t·k_j) u_j)."""
    overlap = (strength * (key @ key.transpose(-2, -1))).tril(-1)
    unit = torch.eye(key.shape[2], dtype=key.dtype, device=key.device)
    return torch.linalg.solve_triangular(
        overlap + unit, strength * target, upper=False, unitriangular=True
    )
