"""Two vectors become one of the same width, from which both are told again.

    parent           p = tanh(W₁[x₁; x₂] + b₁), then p / ‖p‖
    reconstruction   [x₁′; x₂′] = W₂ p + b₂
    error            ½‖x₁ − x₁′‖² + ½‖x₂ − x₂′‖²

(Socher et al. 2011, section 2). Parents are as wide as children, so that it applies to its own outputs.
Without the norm short parents reconstruct short vectors, and everything shrinks towards an error of zero.
Weighted by words, the halves become n₁/(n₁+n₂) and n₂/(n₁+n₂), nᵢ words below child i (the same paper,
section 2.3): a long phrase is then worth more than the word beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.size_rules import require_positive

# Of a vector that is as good as zero, whose direction says nothing.
SHORTEST = 1e-12


class Halves(NamedTuple):
    """Both halves of an encoder, one above the other."""

    weight: Float[Tensor, "both model_dim"]
    bias: Float[Tensor, " both"]

    def of(
        self, x: Float[Tensor, "nodes model_dim"]
    ) -> tuple[Float[Tensor, "nodes model_dim"], Float[Tensor, "nodes model_dim"]]:
        """What the vectors give as left children, and as right ones: the two add up to the sums."""
        left, right = F.linear(x, self.weight, self.bias).chunk(2, dim=1)
        return left, right


class PairAutoencoder(nn.Module):
    """One for all joins of all trees.

    normalise          whether parents have length 1
    weighted_by_words  whether a child counts by the words below it, or both alike
    """

    def __init__(
        self, *, model_dim: int, normalise: bool = True, weighted_by_words: bool = False
    ) -> None:
        super().__init__()
        require_positive("PairAutoencoder", model_dim=model_dim)
        self.model_dim, self.normalise = model_dim, normalise
        self.weighted_by_words = weighted_by_words
        self.encoder = nn.Linear(2 * model_dim, model_dim)
        self.decoder = nn.Linear(model_dim, 2 * model_dim)

    def halves(self) -> Halves:
        """W₁[x₁; x₂] + b₁ taken apart into what a vector gives to it as the left child, and as the right.

        A node meets several neighbours before it is joined: this much is the same for all of them.
        """
        weight, bias = self.encoder.weight, self.encoder.bias
        return Halves(torch.cat(weight.chunk(2, dim=1)), F.pad(bias, (0, len(bias))))

    def activated(self, sums: Float[Tensor, "joins model_dim"]) -> Float[Tensor, "joins model_dim"]:
        """The parents, from W₁[x₁; x₂] + b₁."""
        parents = torch.tanh(sums)
        return unit(parents) if self.normalise else parents

    def errors(
        self,
        parents: Float[Tensor, "joins model_dim"],
        children: Float[Tensor, "joins 2 model_dim"],
        words: Int[Tensor, "joins 2"],
    ) -> Float[Tensor, " joins"]:
        """How badly the children are told from their parents; `words` are those below each child."""
        apart = self.decoder(parents).unflatten(1, (2, -1)) - children
        if not self.weighted_by_words:
            return 0.5 * apart.square().sum(dim=(1, 2))
        squares = apart.square().sum(dim=2)
        words = words.to(squares.dtype)
        return (words * squares).sum(dim=1) / words.sum(dim=1)


def unit(x: Float[Tensor, "vectors width"]) -> Float[Tensor, "vectors width"]:
    """The vectors with length 1."""
    return x * inverse_lengths(x)


def inverse_lengths(x: Float[Tensor, "vectors width"]) -> Float[Tensor, "vectors 1"]:
    """One over the length of each vector."""
    return torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=SHORTEST).reciprocal()
