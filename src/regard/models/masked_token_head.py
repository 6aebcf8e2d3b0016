"""The head that says which token was masked: a small layer, then the token table.

    logits = norm(activation(W hidden + b)) · Eᵀ + c     (Devlin et al. 2019, section 3.1)

E is the table the tokens were embedded with, so a token to be said is one to be read.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.names import look_up
from regard.layers.activations import ACTIVATIONS
from regard.layers.layer_cost import cost_of, norm_cost
from regard.models.token_embedding import TokenEmbedding


class MaskedTokenHead(nn.Module):
    """From hidden features to scores of every token of the embedding it is given."""

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        activation: str = "gelu",
        norm_epsilon: float = 1e-12,
    ) -> None:
        super().__init__()
        self.activation = look_up("activation", activation, ACTIVATIONS)
        self.embedding = embedding
        vocabulary, model_dim = embedding.table.weight.shape
        self.linear = nn.Linear(model_dim, model_dim)
        self.norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places vocabulary"]:
        features = self.norm(self.activation.function(self.linear(hidden)))
        return F.linear(features, self.embedding.table.weight, self.bias)

    def cost(self, *, places: int) -> Cost:
        """What `forward` takes for so many places; the table's parameters are the embedding's."""
        vocabulary, model_dim = self.embedding.table.weight.shape
        numbers = places * model_dim
        activated = Cost(
            functions=numbers * self.activation.evaluations,
            arithmetic=numbers * self.activation.arithmetic,
            memory=numbers,
        )
        return (
            cost_of(self.linear, rows=places)
            + activated
            + norm_cost(rows=places, model_dim=model_dim)
            + self.embedding.logits_cost(rows=places)
            + Cost(arithmetic=places * vocabulary, parameters=vocabulary)
        )
