"""Cosine attention: scores are cosines times a temperature that each head learns.

    score = exp(log_temperature) · q·k / (‖q‖ ‖k‖)          (Liu et al. 2022, Swin V2, eq. 2)

Unlike scaled dot, the scores do not grow with the norms of query and key.

    regard check examples/my_attention.py:CosineAttention
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.mechanisms import ScoredMechanism


class CosineAttention(ScoredMechanism):
    """Softmax over temperature × cosine of query and key; one temperature per head."""

    def __init__(self, *, num_heads: int = 1, temperature: float = 10.0) -> None:
        super().__init__()
        start = math.log(temperature)
        self.log_temperature = nn.Parameter(torch.full((num_heads, 1, 1), start))

    def project_key(self, key: Tensor) -> Tensor:
        return nn.functional.normalize(key, dim=-1)

    def scores(
        self, query: Tensor, cached_key: Tensor, *, query_positions: Tensor, key_positions: Tensor
    ) -> Tensor:
        direction = nn.functional.normalize(query, dim=-1)
        return (direction * self.log_temperature.exp()) @ cached_key.transpose(-2, -1)
