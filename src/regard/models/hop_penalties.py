"""What a classifier with several hops adds to its loss so that they look at different places.

    frobenius   weight · ‖A Aᵀ − I‖²_F, a sum over all pairs of hops, each with itself too
    kl          − weight · mean over i ≠ j of KL(aᵢ ‖ aⱼ), at most 5, since nothing else ends it

The first grows with the number of hops and the second does not: a weight of the one says nothing about a
weight of the other. The sums themselves are in `layers/penalties.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.layers.penalties import frobenius_penalty, pairwise_kl_penalty

# Hops that differ by this much on average, in nats, are told apart enough.
ENOUGH = 5.0

Weights = Float[Tensor, "batch hops length"]


def _none(weights: Weights) -> Float[Tensor, " batch"]:
    return weights.new_zeros(weights.shape[0])


def _divergence(weights: Weights) -> Float[Tensor, " batch"]:
    hops = weights.shape[1]
    pairs = max(1, hops * (hops - 1))
    return -torch.clamp(pairwise_kl_penalty(weights) / pairs, max=ENOUGH)


PENALTIES: dict[str, Callable[[Weights], Float[Tensor, " batch"]]] = {
    "none": _none,
    "frobenius": frobenius_penalty,
    "kl": _divergence,
}
