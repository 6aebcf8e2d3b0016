"""Keys drawn about orthonormal means, and the weights that a head gives them.

    kᵢ ~ N(μᵢ, αI),  and, where its length swings,  k_a ~ N(μ_a, αI + ½μ_aμ_aᵀ), about ε μ_a, ε ~ N(1, ½)

The means are the axes, a the first and b the second. Values are orthonormal too, so that an output is as
far from another as their weights are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from scipy.stats import binomtest
from torch import Tensor

from regard.mechanisms.dot import DotAttention

A, B = 0, 1


class Share(NamedTuple):
    """A share of draws, with Wilson's 95 % interval."""

    share: float
    low: float
    high: float


class Draws(NamedTuple):
    """Keys, and how long k_a is along μ_a in each draw."""

    keys: Float[Tensor, "draws keys width"]
    lengths: Float[Tensor, " draws"]


def drawn_keys(*, n: int, alpha: float, swings: bool, draws: int, seed: int) -> Draws:
    """The same seed draws the same noise, whatever alpha."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(draws, n, n, dtype=torch.float64, generator=generator)
    keys = torch.eye(n, dtype=torch.float64) + alpha**0.5 * noise
    if swings:
        keys[:, A, A] += 0.5**0.5 * torch.randn(draws, dtype=torch.float64, generator=generator)
    return Draws(keys, keys[:, A, A])


def head_weights(
    keys: Float[Tensor, "draws keys width"], *, of_a: float, of_b: float
) -> Float[Tensor, "draws keys"]:
    """What dot attention gives every key, for the query of_a · μ_a + of_b · μ_b."""
    query = torch.zeros(len(keys), 1, 1, keys.shape[-1], dtype=keys.dtype)
    query[..., A], query[..., B] = of_a, of_b
    return DotAttention().weights(query, keys[:, None])[:, 0, 0]


def distance_from_half(weights: Float[Tensor, "draws keys"]) -> Float[Tensor, " draws"]:
    """Σ |weight − target|, the target being ½ for a and b: what an output is off, for unit values."""
    target = torch.zeros(weights.shape[1], dtype=weights.dtype)
    target[[A, B]] = 0.5
    return (weights - target).abs().sum(dim=1)


def spread(weights: Float[Tensor, "draws keys"]) -> float:
    """The variance of the output: mean squared distance from its own mean."""
    return float(weights.var(dim=0).sum())


def share_of(happens: Tensor) -> Share:
    """How often something happens."""
    count, total = int(happens.sum()), happens.numel()
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return Share(count / total, float(interval.low), float(interval.high))


def copy_error(gap: float, *, n: int) -> float:
    """What all other keys get when one leads them by `gap`."""
    keys = torch.eye(n, dtype=torch.float64)[None, None]
    return float(DotAttention().weights(gap * keys[:, :, :1], keys)[0, 0, 0, 1:].sum())


def copy_distance(gap: float, *, n: int) -> float:
    """|c − vⱼ| where the key of vⱼ = 1 leads by `gap` and all other values are 0."""
    keys = torch.eye(n, dtype=torch.float64)[None, None]
    value = torch.zeros(1, 1, n, 1, dtype=torch.float64)
    value[:, :, 0] = 1.0
    return abs(float(DotAttention()(gap * keys[:, :, :1], keys, value)) - 1.0)


def average_error(size: float, *, n: int) -> float:
    """What the keys other than a and b get, for orthonormal keys."""
    keys = torch.eye(n, dtype=torch.float64)[None]
    return float(head_weights(keys, of_a=size, of_b=size)[0, 2:].sum())


def mean_error(keys: Float[Tensor, "draws keys width"], size: float) -> float:
    """Of the query C(μ_a + μ_b), over draws."""
    return float(distance_from_half(head_weights(keys, of_a=size, of_b=size)).mean())


def two_head_weights(
    keys: Float[Tensor, "draws keys width"], *, size: float
) -> Float[Tensor, "draws keys"]:
    """The mean of the weights of a head for a and a head for b."""
    first, second = head_weights(keys, of_a=size, of_b=0.0), head_weights(keys, of_a=0.0, of_b=size)
    return (first + second) / 2
