"""Gated linear attention: each key channel decays by a factor computed from the input (Yang et al. 2024).

Retention with a decay that is learned, differs between channels and depends on the token.
"""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.core.cost import Cost
from regard.core.mechanism import Extra
from regard.mechanisms.decay import DecayedMechanism


def _slow_decay(raw: Tensor) -> Tensor:
    """log of sigmoid(raw)^(1/16): a decay near one at the start of training (GLA, sec. 4.4)."""
    return functional.logsigmoid(raw) / 16.0


class GatedAttention(DecayedMechanism):
    """S_t = diag(exp(log_decay_t)) S_{t−1} + k_t v_tᵀ   (Yang et al. 2024, sec. 4)."""

    extras: ClassVar[tuple[Extra, ...]] = (Extra("log_decay", "key_dim", _slow_decay),)

    def __init__(self, *, chunk_size: int = 64) -> None:
        super().__init__(chunk_size=chunk_size)

    def control(
        self,
        key: Float[Tensor, "batch kv_heads length key_dim"],
        *,
        log_decay: Float[Tensor, "batch kv_heads length key_dim"],
    ) -> Float[Tensor, "batch kv_heads length key_dim"]:
        del key
        # e^−100 is nothing already; −∞, a complete reset, would make differences undefined.
        return log_decay.clamp(min=-100.0)

    def control_dim(self, key_dim: int) -> int:
        return key_dim

    def chunk_cost(self, length: int, key_dim: int, value_dim: int) -> Cost:
        clamped = Cost(arithmetic=length * key_dim)
        return super().chunk_cost(length, key_dim, value_dim) + clamped
