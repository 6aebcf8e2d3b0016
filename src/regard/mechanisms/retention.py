"""Retention: linear attention with a fixed decay a head (Sun et al. 2023, RetNet).

Head h forgets by the factor γ_h = 1 − 2^(−5−h) a step, so heads see ever further back. No softmax, no
denominator: RetNet normalises the output afterwards, which is the layer's business.
"""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from regard.core.errors import RegardError
from regard.mechanisms.decay import DecayedMechanism


class RetentionAttention(DecayedMechanism):
    """weight of key j at query i = γ_h^(i−j) · query · key / √key_dim   (Sun et al. 2023, sec. 2)."""

    def __init__(self, *, num_heads: int = 1, chunk_size: int = 64) -> None:
        super().__init__(chunk_size=chunk_size)
        self.num_heads = num_heads
        self.decays = [1 - 2.0 ** (-5 - head) for head in range(num_heads)]

    def memory_heads(self, num_kv_heads: int) -> int:
        # Heads that share keys and values still forget at different speeds.
        return max(num_kv_heads, len(self.decays))

    def control(
        self, key: Float[Tensor, "batch heads length key_dim"]
    ) -> Float[Tensor, "batch heads length 1"]:
        if len(self.decays) not in (1, key.shape[1]):
            raise RegardError(
                f"{self.name} was built for num_heads={len(self.decays)} and got {key.shape[1]} heads: "
                "build it for as many as there are, or for one that all share."
            )
        log_decay = key.new_tensor([math.log(decay) for decay in self.decays])
        return log_decay[None, :, None, None].expand(key.shape[0], key.shape[1], key.shape[2], 1)

    def control_dim(self, key_dim: int) -> int:
        del key_dim
        return 1
