"""From scores to weights, and from sums to averages: the one normaliser and the one guard.

Every mechanism that takes a softmax takes it here, and every mechanism that divides by a sum of kernel
values guards that sum here, so that all faces of a mechanism agree on the awkward rows.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# A sum is called noise when it is no more than so many roundings of what went into it.
NOISE = 4


def softmax_over_keys(
    scores: Float[Tensor, "*batch query_length key_length"], allowed: Bool[Tensor, "..."] | None
) -> Float[Tensor, "*batch query_length key_length"]:
    """Softmax over the last dimension where `allowed` is True; a row with nothing allowed is zeros.

    >>> softmax_over_keys(torch.zeros(2, 3), torch.tensor([[True, True, False], [False] * 3]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    if allowed is None:
        return torch.softmax(scores, dim=-1)
    empty = ~allowed.any(dim=-1, keepdim=True)
    # An empty row is left unmasked and zeroed afterwards: a row of −inf would be NaN, forward and back.
    masked = scores.masked_fill(~(allowed | empty), float("-inf"))
    return torch.softmax(masked, dim=-1).masked_fill(empty, 0.0)


def least_floor(dtype: torch.dtype) -> float:
    """The least denominator whose inverse, and the slope of it, do not overflow."""
    return float(torch.finfo(dtype).tiny ** 0.5)


def noise_floor(bound: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Below what a sum is rounding noise, given the sum of the magnitudes that went into it."""
    numbers = torch.finfo(bound.dtype)
    return (NOISE * numbers.eps * bound).clamp(min=least_floor(bound.dtype))


def inverse(
    denominator: Float[Tensor, "*shape"], *, floor: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """1 / denominator, as if the denominator were pushed away from zero by `floor`, keeping its sign.

    Within the guarded zone the result is a constant.
    """
    is_small = denominator.abs() < floor
    # Replaced before the division: the slope at zero would be infinite.
    return torch.where(is_small, floor.copysign(denominator.detach()), denominator).reciprocal()


def inverse_slope(
    inverses: Float[Tensor, "*shape"], *, floor: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """The derivative of `inverse` by its denominator, times the denominator, from its result.

    It is −1/denominator, and zero in the guarded zone.
    """
    return -inverses.masked_fill(inverses.abs() * floor >= 1, 0.0)


def average(
    total: Float[Tensor, "*batch length width"],
    denominator: Float[Tensor, "*batch length"],
    *,
    floor: Float[Tensor, "..."],
) -> Float[Tensor, "*batch length width"]:
    """`total / denominator`, with the guard."""
    # One division a row and a product an entry, which is much cheaper than a division an entry.
    return total * inverse(denominator, floor=floor)[..., None]
