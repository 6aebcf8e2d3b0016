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
from regard.core.counter import SOFTMAX_OPS
from regard.core.masks import NO_MASK, Mask
from regard.core.normalise import softmax_over_keys
from regard.layers.cost import SequenceShape, cost_of, validate_sequence_shape
from regard.layers.validation import validate_padding_only, validate_positive, validate_sequence


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
    validate_padding_only("Pooling", mask)
    allowed = None if mask.lengths is None else mask.keep(x.shape[1])[:, None]
    weights = softmax_over_keys(scores, allowed)
    return Pooled(context=weights @ x, weights=weights)


class ContextPooling(nn.Module):
    """From a sequence to one vector of the same width, one hop   (Yang et al. 2016, eq. 5–7)."""

    def __init__(self, *, model_dim: int, hidden_dim: int | None = None) -> None:
        super().__init__()
        hidden_dim = model_dim if hidden_dim is None else hidden_dim
        validate_positive("ContextPooling", model_dim=model_dim, hidden_dim=hidden_dim)
        self.hidden = nn.Linear(model_dim, hidden_dim)
        self.context = nn.Parameter(torch.empty(self.hidden.out_features))
        # Initial scores have about the variance of one tanh.
        nn.init.normal_(self.context, std=self.hidden.out_features**-0.5)

    def forward(self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK) -> Pooled:
        validate_sequence("ContextPooling", x, width=self.hidden.in_features)
        scores = torch.tanh(self.hidden(x)) @ self.context
        return pool(scores[:, None], x, mask)

    def cost(self, shape: SequenceShape) -> Cost:
        validate_sequence_shape("ContextPooling", shape)
        model_dim, hidden_dim = self.hidden.in_features, self.hidden.out_features
        read_out = Cost(
            matmul_flops=2 * shape.positions * (hidden_dim + model_dim),
            elementwise_ops=SOFTMAX_OPS * shape.positions,
            # The gradient of u is an outer product with u_context, elementwise.
            backward_matmul_flops=2 * shape.positions * (hidden_dim + 2 * model_dim),
            transcendental_ops=shape.positions * (hidden_dim + 1),
            memory=shape.positions * (hidden_dim + 2) + shape.batch_size * model_dim,
            parameters=hidden_dim,
            sequential_steps=2,
            max_path_length=1,
        )
        return cost_of(self.hidden, rows=shape.positions) + read_out


class StructuredPooling(nn.Module):
    """From a sequence to `hops` vectors of the same width   (Lin et al. 2017, eq. 6)."""

    def __init__(self, *, model_dim: int, hidden_dim: int, hops: int = 1) -> None:
        super().__init__()
        validate_positive(
            "StructuredPooling", model_dim=model_dim, hidden_dim=hidden_dim, hops=hops
        )
        self.hidden = nn.Linear(model_dim, hidden_dim, bias=False)
        self.score = nn.Linear(hidden_dim, hops, bias=False)

    def forward(self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK) -> Pooled:
        validate_sequence("StructuredPooling", x, width=self.hidden.in_features)
        scores = self.score(torch.tanh(self.hidden(x)))
        return pool(scores.transpose(1, 2), x, mask)

    def cost(self, shape: SequenceShape) -> Cost:
        validate_sequence_shape("StructuredPooling", shape)
        model_dim, hidden_dim = self.hidden.in_features, self.hidden.out_features
        weights = shape.positions * self.score.out_features
        matmul_flops = 2 * weights * model_dim
        read_out = Cost(
            matmul_flops=matmul_flops,
            elementwise_ops=SOFTMAX_OPS * weights,
            backward_matmul_flops=2 * matmul_flops,
            transcendental_ops=weights + shape.positions * hidden_dim,
            memory=weights
            + shape.positions * hidden_dim
            + shape.batch_size * self.score.out_features * model_dim,
            sequential_steps=1,
            max_path_length=1,
        )
        hidden = cost_of(self.hidden, rows=shape.positions)
        return hidden + cost_of(self.score, rows=shape.positions) + read_out


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
