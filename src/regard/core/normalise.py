"""From scores to weights, and from sums to averages: the one normaliser and the one guard.

Every mechanism that takes a softmax takes it here, and every mechanism that divides by a sum of kernel
values guards that sum here, so that all faces of a mechanism agree on the awkward rows.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# A sum of signed terms can be arbitrarily near zero by cancellation, where its sign is noise.
SIGNED_FLOOR = 1e-6


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


def _floor(dtype: torch.dtype, *, signed: bool) -> float:
    return SIGNED_FLOOR if signed else float(torch.finfo(dtype).tiny ** 0.5)


def inverse(denominator: Float[Tensor, "*shape"], *, signed: bool) -> Float[Tensor, "*shape"]:
    """1 / denominator, as if the denominator were pushed away from zero, keeping its sign.

    `signed` says whether the terms of the sum can be negative. A sum of non-negative terms is exact
    however small, so it is only kept from where its inverse, or that one's slope, would overflow.
    Within the guarded zone the result is a constant.
    """
    floor = _floor(denominator.dtype, signed=signed)
    is_small = denominator.abs() < floor
    # The small ones are replaced before the division, or their infinite slope would spoil gradients.
    exact = denominator.masked_fill(is_small, 1.0).reciprocal()
    bound = torch.full_like(exact, 1 / floor).copysign(denominator.detach())
    return torch.where(is_small, bound, exact)


def inverse_slope(inverses: Float[Tensor, "*shape"], *, signed: bool) -> Float[Tensor, "*shape"]:
    """The derivative of `inverse` by its denominator, times the denominator, from its result.

    It is −1/denominator, and zero in the guarded zone.
    """
    floor = _floor(inverses.dtype, signed=signed)
    return -inverses.masked_fill(inverses.abs() >= 1 / floor, 0.0)


def average(
    total: Float[Tensor, "*batch length width"],
    denominator: Float[Tensor, "*batch length"],
    *,
    signed: bool,
) -> Float[Tensor, "*batch length width"]:
    """`total / denominator`, with the guard."""
    # One division a row and a product an entry, which is much cheaper than a division an entry.
    return total * inverse(denominator, signed=signed)[..., None]
