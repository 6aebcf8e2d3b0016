"""Structured self-attention: several hops, each a weighted sum of the sequence (Lin et al. 2017).

    A = softmax(W₂ tanh(W₁ Hᵀ)),  M = A H

One row of A a hop; with one hop it is the vector form. Unlike learned-context pooling it has no
bias, and as many queries (rows of W₂) as wished, which `penalties` keep from looking at one place.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.counter import SOFTMAX_ARITHMETIC
from regard.core.masks import NO_MASK, Mask
from regard.layers.layer_cost import SequenceShape, cost_of, require_shape
from regard.layers.pooling import Pooled, pool
from regard.layers.sequence_input import require_sequence
from regard.layers.size_rules import require_positive


class StructuredPooling(nn.Module):
    """From a sequence to `hops` vectors of the same width (Lin et al. 2017, eq. 6)."""

    def __init__(self, *, model_dim: int, hidden_dim: int, hops: int = 1) -> None:
        super().__init__()
        require_positive("StructuredPooling", model_dim=model_dim, hidden_dim=hidden_dim, hops=hops)
        self.hidden = nn.Linear(model_dim, hidden_dim, bias=False)
        self.score = nn.Linear(hidden_dim, hops, bias=False)

    def forward(self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK) -> Pooled:
        require_sequence("StructuredPooling", x, width=self.hidden.in_features)
        scores = self.score(torch.tanh(self.hidden(x)))
        return pool(scores.transpose(1, 2), x, mask)

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes."""
        require_shape("StructuredPooling", shape)
        model_dim, hidden_dim = self.hidden.in_features, self.hidden.out_features
        weights = shape.rows * self.score.out_features
        products = 2 * weights * model_dim
        read_out = Cost(
            products=products,
            arithmetic=SOFTMAX_ARITHMETIC * weights,
            backward_products=2 * products,
            functions=weights + shape.rows * hidden_dim,
            memory=weights
            + shape.rows * hidden_dim
            + shape.batch_size * self.score.out_features * model_dim,
            sequential_steps=1,
            longest_path=1,
        )
        hidden, score = cost_of(self.hidden, rows=shape.rows), cost_of(self.score, rows=shape.rows)
        return hidden + score + read_out
