"""Scaled dot attention: score = q·k/√d, the Transformer's (Vaswani et al. 2017).

The scale keeps the scores' variance at one whatever the width; otherwise it is dot attention.
"""

from __future__ import annotations

from regard.mechanisms.fused import FusedMechanism


class ScaledDotAttention(FusedMechanism):
    """score = query · key / √key_dim   (Vaswani et al. 2017, eq. 1)."""

    def scale(self, key_dim: int) -> float:
        return float(key_dim**-0.5)
