"""Penalties that keep the hops of a weight matrix A (hops × length) from looking at one place.

    frobenius     ‖A Aᵀ − I‖²_F                   to be minimised (Lin et al. 2017, eq. 8)
    pairwise KL   Σᵢⱼ KL(aᵢ ‖ aⱼ)                  to be maximised; what Lin et al. replaced

Zero is the best the first can be: one-hot hops that do not overlap. The second has no bound.
Columns that no hop looks at, such as padding, add nothing to either.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


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
