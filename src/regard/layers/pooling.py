"""Attention pooling with learned queries: HAN's context vector and structured self-attention.

    context      u = tanh(W h + b),  α = softmax(u · u_context),  output = Σ α h    (Yang et al. 2016)
    structured   A = softmax(W₂ tanh(W₁ Hᵀ)),  M = A H                              (Lin et al. 2017)

Penalties keep the hops of structured pooling from attending to the same positions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.masks import NO_MASK, Mask
from regard.core.normalise import softmax_over_keys
from regard.core.options import PositiveInt, validated
from regard.layers.cost import SequenceShape, forward_cost
from regard.layers.validation import validate_padding_only, validate_sequence


class Pooled(NamedTuple):
    """One vector per hop, and the attention weights of each hop."""

    context: Float[Tensor, "batch hops width"]
    weights: Float[Tensor, "batch hops length"]


def pool(
    scores: Float[Tensor, "batch hops length"],
    x: Float[Tensor, "batch length width"],
    mask: Mask,
) -> Pooled:
    """Softmax over positions, then weighted sums. Padding has weight 0; a row of padding gives zeros."""
    validate_padding_only("Pooling", mask, batch_size=x.shape[0])
    allowed = None if mask.lengths is None else mask.keep(x.shape[1])[:, None]
    weights = softmax_over_keys(scores, allowed)
    return Pooled(context=weights @ x, weights=weights)


class ContextPooling(nn.Module):
    """From a sequence to one vector of the same width, one hop   (Yang et al. 2016, eq. 5–7)."""

    @validated
    def __init__(self, *, model_dim: PositiveInt, hidden_dim: PositiveInt | None = None) -> None:
        super().__init__()
        hidden_dim = model_dim if hidden_dim is None else hidden_dim
        self.hidden = nn.Linear(model_dim, hidden_dim)
        self.context = nn.Parameter(torch.empty(self.hidden.out_features))
        # Initial scores have about the variance of one tanh.
        nn.init.normal_(self.context, std=self.hidden.out_features**-0.5)

    def forward(self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK) -> Pooled:
        validate_sequence("ContextPooling", x, width=self.hidden.in_features)
        scores = torch.tanh(self.hidden(x)) @ self.context
        return pool(scores[:, None], x, mask)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted."""
        return forward_cost(self, shape, width=self.hidden.in_features, max_path_length=1)


class StructuredPooling(nn.Module):
    """From a sequence to `hops` vectors of the same width   (Lin et al. 2017, eq. 6)."""

    @validated
    def __init__(
        self, *, model_dim: PositiveInt, hidden_dim: PositiveInt, hops: PositiveInt = 1
    ) -> None:
        super().__init__()
        self.hidden = nn.Linear(model_dim, hidden_dim, bias=False)
        self.score = nn.Linear(hidden_dim, hops, bias=False)

    def forward(self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK) -> Pooled:
        validate_sequence("StructuredPooling", x, width=self.hidden.in_features)
        scores = self.score(torch.tanh(self.hidden(x)))
        return pool(scores.transpose(1, 2), x, mask)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted."""
        return forward_cost(self, shape, width=self.hidden.in_features, max_path_length=1)


def frobenius_penalty(weights: Float[Tensor, "batch hops length"]) -> Float[Tensor, " batch"]:
    """‖A Aᵀ − I‖²_F of each example, to be minimised   (Lin et al. 2017, eq. 8).

    It is 0 for one-hot hops that do not overlap. Padding adds nothing.

    >>> frobenius_penalty(torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]))  # every entry of AAᵀ is ½
    tensor([1.])
    """
    overlap = weights @ weights.transpose(1, 2)
    unit = torch.eye(weights.shape[1], dtype=weights.dtype, device=weights.device)
    return (overlap - unit).square().sum(dim=(1, 2))


def pairwise_kl_penalty(weights: Float[Tensor, "batch hops length"]) -> Float[Tensor, " batch"]:
    """Σ KL(aᵢ ‖ aⱼ) over ordered pairs of hops, of each example, to be maximised; unbounded.

    Computed as hops · Σᵢ aᵢ·log aᵢ minus the sum of A (log A)ᵀ: one logarithm per entry instead of one
    per pair. Logarithms are clamped at that of the smallest normal number, so that the divergence is
    large, not infinite, where one hop has weight 0 and another has not.

    >>> pairwise_kl_penalty(torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]))
    tensor([0.])
    """
    logarithms = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    negative_entropy = (weights * logarithms).sum(dim=(1, 2))
    cross = (weights @ logarithms.transpose(1, 2)).sum(dim=(1, 2))
    return weights.shape[1] * negative_entropy - cross
