"""Learned-context pooling: a sequence read by one learned vector (Yang et al. 2016, HAN).

    u = tanh(W h + b),  α = softmax(u · u_context),  output = Σ α h

Structured pooling with one hop and a bias; used for the words of a sentence, then for the sentences
of a document.
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


class ContextPooling(nn.Module):
    """From a sequence to one vector of the same width, as one hop (Yang et al. 2016, eq. 5–7)."""

    def __init__(self, *, model_dim: int, hidden_dim: int | None = None) -> None:
        super().__init__()
        hidden_dim = model_dim if hidden_dim is None else hidden_dim
        require_positive("ContextPooling", model_dim=model_dim, hidden_dim=hidden_dim)
        self.hidden = nn.Linear(model_dim, hidden_dim)
        self.context = nn.Parameter(torch.empty(self.hidden.out_features))
        # Scores then start with about the variance of one tanh.
        nn.init.normal_(self.context, std=self.hidden.out_features**-0.5)

    def forward(self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK) -> Pooled:
        require_sequence("ContextPooling", x, width=self.hidden.in_features)
        scores = torch.tanh(self.hidden(x)) @ self.context
        return pool(scores[:, None], x, mask)

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes."""
        require_shape("ContextPooling", shape)
        model_dim, hidden_dim = self.hidden.in_features, self.hidden.out_features
        read_out = Cost(
            products=2 * shape.rows * (hidden_dim + model_dim),
            arithmetic=SOFTMAX_ARITHMETIC * shape.rows,
            # The gradient of u is u_context times a number each, which is no product.
            backward_products=2 * shape.rows * (hidden_dim + 2 * model_dim),
            functions=shape.rows * (hidden_dim + 1),
            memory=shape.rows * (hidden_dim + 2) + shape.batch_size * model_dim,
            parameters=hidden_dim,
            sequential_steps=2,
            longest_path=1,
        )
        return cost_of(self.hidden, rows=shape.rows) + read_out
