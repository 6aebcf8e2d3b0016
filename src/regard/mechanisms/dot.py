"""Dot attention: score = q·k, the score of Luong et al. 2015 that has nothing to learn.

Unlike scaled dot, the scores grow with the width: at d = 64 random unit-variance vectors score ±8, and
the softmax is nearly one-hot.
"""

from __future__ import annotations

from regard.mechanisms.fused import FusedMechanism


class DotAttention(FusedMechanism):
    """score = query · key   (Luong et al. 2015, sec. 3.1, "dot")."""

    def scale(self, key_dim: int) -> float:
        del key_dim
        return 1.0
