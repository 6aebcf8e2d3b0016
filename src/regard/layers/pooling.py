"""What every pooling layer gives back, and the one way from its scores there.

A pooling layer reads a sequence with queries that are learned, not computed from the input.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.counter import SOFTMAX_ARITHMETIC
from regard.core.masks import NO_MASK, Mask
from regard.core.normalise import softmax_over_keys
from regard.layers.cost import SequenceShape, cost_of, require_shape
from regard.layers.validation import refuse_all_but_padding, require_positive, require_sequence


class Pooled(NamedTuple):
    """The sequence as one vector a hop, and what each hop looked at."""

    context: Float[Tensor, "batch hops width"]
    weights: Float[Tensor, "batch hops length"]


def pool(
    scores: Float[Tensor, "batch hops length"],
    x: Float[Tensor, "batch length width"],
    mask: Mask,
) -> Pooled:
    """Softmax over positions, then weighted sums. Padding has no weight; all padding is zeros."""
    refuse_all_but_padding("Pooling", mask)
    allowed = None if mask.lengths is None else mask.keep(x.shape[1])[:, None]
    weights = softmax_over_keys(scores, allowed)
    return Pooled(context=weights @ x, weights=weights)


# Learned-context pooling: a sequence read by one learned vector (Yang et al. 2016, HAN).
#
# u = tanh(W h + b),  α = softmax(u · u_context),  output = Σ α h
#
# Structured pooling with one hop and a bias; used for the words of a sentence, then for the
# sentences of a document.


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


# Structured self-attention: several hops, each a weighted sum of the sequence (Lin et al. 2017).
#
# A = softmax(W₂ tanh(W₁ Hᵀ)),  M = A H
#
# One row of A a hop; with one hop it is the vector form. Unlike learned-context pooling it has no
# bias, and as many queries (rows of W₂) as wished, which `penalties` keep from looking at one
# place.


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


# Penalties that keep the hops of a weight matrix A (hops × length) from looking at one place.
#
# frobenius     ‖A Aᵀ − I‖²_F                   to be minimised (Lin et al. 2017, eq. 8) pairwise KL
# Σᵢⱼ KL(aᵢ ‖ aⱼ)                  to be maximised; what Lin et al. replaced
#
# Zero is the best the first can be: one-hot hops that do not overlap. The second has no bound.
# Columns that no hop looks at, such as padding, add nothing to either.


def frobenius_penalty(weights: Float[Tensor, "batch hops length"]) -> Float[Tensor, " batch"]:
    """‖A Aᵀ − I‖²_F of each example, squared as in the paper.

    >>> frobenius_penalty(torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]))  # every entry of AAᵀ is ½
    tensor([1.])
    """
    overlap = weights @ weights.transpose(1, 2)
    unit = torch.eye(weights.shape[1], dtype=weights.dtype, device=weights.device)
    return (overlap - unit).square().sum(dim=(1, 2))


def pairwise_kl_penalty(weights: Float[Tensor, "batch hops length"]) -> Float[Tensor, " batch"]:
    """Σ KL(aᵢ ‖ aⱼ) over ordered pairs of hops, of each example.

    As hops · Σᵢ aᵢ·log aᵢ less the sum of A (log A)ᵀ: one logarithm an entry instead of one a pair.
    Where a hop has no weight and another has, the divergence is infinite; logarithms stop at that
    of the smallest normal number, so it is large instead.

    >>> pairwise_kl_penalty(torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]))
    tensor([0.])
    """
    logarithms = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    negative_entropy = (weights * logarithms).sum(dim=(1, 2))
    cross = (weights @ logarithms.transpose(1, 2)).sum(dim=(1, 2))
    return weights.shape[1] * negative_entropy - cross
