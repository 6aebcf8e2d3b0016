"""Penalties on hops in the forms they are written in: what each takes, and where KL leads.

The element-by-element forms of the pairwise KL divergence are written out here, to be counted beside the
product that `layers/penalties.py` uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.claims.counted_runs import counter_of
from regard.layers.penalties import frobenius_penalty, pairwise_kl_penalty

Weights = Float[Tensor, "batch hops length"]


def elementwise_kl(weights: Weights) -> Float[Tensor, " batch"]:
    """Σ KL(aᵢ ‖ aⱼ) as Σ a log a − a log b, both logarithms taken at every place of every pair."""
    first, second = torch.broadcast_tensors(weights[:, :, None], weights[:, None])
    return (first * first.log() - first * second.log()).sum(dim=(1, 2, 3))


def quotient_kl(weights: Weights) -> Float[Tensor, " batch"]:
    """The same as Σ a log(a / b): one logarithm and one division at every place of every pair."""
    first, second = weights[:, :, None], weights[:, None]
    return (first * (first / second).log()).sum(dim=(1, 2, 3))


KL_FORMS: dict[str, Callable[[Weights], Tensor]] = {
    "Σ a log a − a log b for every pair": elementwise_kl,
    "Σ a log(a/b) for every pair": quotient_kl,
    "entropies − A·log Aᵀ, one product": pairwise_kl_penalty,
}


def operations_share(kl: Callable[[Weights], Tensor], *, hops: int, n: int) -> float:
    """The Frobenius penalty's operations as a share of those of a KL penalty."""
    weights = random_weights(hops=hops, n=n)
    counted = [counter_of(lambda of=of: of(weights)) for of in (frobenius_penalty, kl)]  # type: ignore[misc]
    return counted[0].operations / counted[1].operations


def random_weights(*, hops: int, n: int, batch_size: int = 1) -> Weights:
    """Of scores drawn alike for all."""
    drawn = torch.Generator().manual_seed(0)
    return torch.randn(batch_size, hops, n, generator=drawn, dtype=torch.float64).softmax(dim=-1)


def parting(
    *, hops: int, n: int, seed: int, most: float = 12.0, steps: int = 25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hops that start alike and are drawn each to its own place: distance, KL and Frobenius penalty."""
    start = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 4
    distances = torch.linspace(0, most, steps, dtype=torch.float64)
    drawn = torch.eye(hops, n, dtype=torch.float64)
    weights = (start + distances[:, None, None] * drawn).softmax(dim=-1)
    both = pairwise_kl_penalty(weights), frobenius_penalty(weights)
    return (distances.numpy(), both[0].numpy(), both[1].numpy())


def two_hop_kl(sharpness: float) -> float:
    """KL both ways between (1 − ε, ε) and (ε, 1 − ε), ε = exp(−sharpness)."""
    small = math.exp(-sharpness)
    return 2 * (1 - 2 * small) * (math.log1p(-small) + sharpness)


def formula_error() -> float:
    """The largest relative difference between `two_hop_kl` and the penalty, where ε is a number."""
    errors = []
    for sharpness in (1.0, 3.0, 10.0, 30.0, 100.0, 600.0):
        small = math.exp(-sharpness)
        hops = torch.tensor([[[1 - small, small], [small, 1 - small]]], dtype=torch.float64)
        right = two_hop_kl(sharpness)
        errors.append(abs(float(pairwise_kl_penalty(hops)) - right) / right)
    return max(errors)


def kl_of_draws(*, hops: int, n: int, seed: int, draws: int = 200) -> tuple[float, float]:
    """The largest |KL| of equal hops; and over hops that differ, the least KL over ½‖a − b‖₁² of the two
    that differ most, which is 1 or more if KL is 0 for equal hops only (Pinsker's inequality).

    Some differ in all scores, some in one score of one hop, and by between a hundredth and ten.
    """
    drawn = torch.Generator().manual_seed(seed)
    equal = torch.randn(draws, 1, n, generator=drawn, dtype=torch.float64).expand(-1, hops, -1)
    size = 10 ** torch.linspace(-2, 1, draws, dtype=torch.float64)[:, None, None]
    everywhere = size * torch.randn(draws, hops, n, generator=drawn, dtype=torch.float64)
    in_one_place = torch.zeros_like(everywhere)
    in_one_place[:, 0, 0] = size[:, 0, 0]
    apart = torch.cat([equal + everywhere, equal + in_one_place]).softmax(dim=-1)
    least = 0.5 * torch.cdist(apart, apart, p=1.0).amax(dim=(1, 2)) ** 2
    of_equal = pairwise_kl_penalty(equal.softmax(dim=-1)).abs().max()
    return float(of_equal), float((pairwise_kl_penalty(apart) / least).min())
