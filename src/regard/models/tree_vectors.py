"""The vectors of all nodes of trees, and the way back through them: a level at a time.

    p = tanh(W₁[x₁; x₂] + b₁), then p / ‖p‖ where parents are normalised

Choosing the trees has given the vectors already. What is left for the forward pass is to compute them from
their children all at once, in one product. Backward, the nodes of a level stand side by side and every node
has one parent at most, so gradients go down in one product a level; those of W₁ and b₁ are one product for
all levels. Autograd would go down the same way keeping a copy of all nodes for every level.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.models.greedy_trees import Grown
from regard.models.pair_autoencoder import PairAutoencoder, inverse_lengths


def tree_vectors(
    leaves: Float[Tensor, "words model_dim"], grown: Grown, pair: PairAutoencoder
) -> Float[Tensor, "nodes model_dim"]:
    """The vectors of words, as they are, and of joins, with gradients for words and the encoder."""
    trees, encoder = grown.trees, pair.encoder
    children = grown.vectors[trees.children].flatten(1)
    vectors: Tensor = _TreeVectors.apply(  # type: ignore[no-untyped-call]
        leaves, encoder.weight, encoder.bias, children, trees.children, trees.levels, pair.normalise
    )
    return vectors


class _TreeVectors(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        leaves: Tensor,
        weight: Tensor,
        bias: Tensor,
        children: Tensor,
        nodes: Tensor,
        levels: tuple[int, ...],
        normalise: bool,
    ) -> Tensor:
        parents = torch.addmm(bias, children, weight.t()).tanh_()
        slopes = 1 - parents.square()
        if normalise:
            inverses = inverse_lengths(parents)
            parents *= inverses
            slopes *= inverses
        ctx.save_for_backward(weight, children, parents, slopes, nodes)
        ctx.levels, ctx.normalise = levels, normalise
        return torch.cat([leaves, parents])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, children, parents, slopes, nodes = ctx.saved_tensors
        gradient = gradient.clone()
        of_words, of_joins = gradient.split([len(gradient) - len(nodes), len(nodes)])
        by_level = zip(
            *(tensor.split(ctx.levels) for tensor in (of_joins, parents, slopes, nodes)),
            strict=True,
        )
        for of_parents, level, slope, below in reversed(list(by_level)):
            # From here on, of the sums that tanh is taken of.
            if ctx.normalise:
                along = (level * of_parents).sum(dim=1, keepdim=True)
                of_parents.addcmul_(along, level, value=-1)
            of_parents.mul_(slope)
            gradient.index_add_(0, below.flatten(), (of_parents @ weight).view(2 * len(below), -1))
        return of_words, of_joins.t() @ children, of_joins.sum(dim=0), None, None, None, None
