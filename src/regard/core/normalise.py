"""Masked softmax, and division by a sum of kernel values with a guard against small denominators.

All mechanisms normalise here, so that `forward`, `weights` and decoding agree on rows without keys and
on denominators near zero.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# A sum of at most this many rounding errors of its terms is noise.
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
    # An empty row is left unmasked and zeroed afterwards: a row of −inf would give NaN, also in backward.
    masked = scores.masked_fill(~(allowed | empty), float("-inf"))
    return torch.softmax(masked, dim=-1).masked_fill(empty, 0.0)


def min_floor(dtype: torch.dtype) -> float:
    """The smallest denominator whose reciprocal and its derivative do not overflow."""
    return float(torch.finfo(dtype).tiny ** 0.5)


def noise_floor(bound: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The magnitude below which a sum is rounding noise; `bound` is the sum of its terms' magnitudes."""
    numbers = torch.finfo(bound.dtype)
    return (NOISE * numbers.eps * bound).clamp(min=min_floor(bound.dtype))


def inverse(
    denominator: Float[Tensor, "*shape"], *, floor: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """1 / denominator, with |denominator| clamped to at least `floor`, keeping its sign.

    Where it is clamped the result is a constant.
    """
    is_small = denominator.abs() < floor
    # Replaced before the division: the derivative at zero would be infinite.
    return torch.where(is_small, floor.copysign(denominator.detach()), denominator).reciprocal()


def inverse_slope(
    inverses: Float[Tensor, "*shape"], *, floor: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """The derivative of `inverse` with respect to its denominator, times the denominator.

    It is −1/denominator, and zero where `inverse` clamps. The argument is the result of `inverse`.
    """
    return -inverses.masked_fill(inverses.abs() * floor >= 1, 0.0)


def average(
    total: Float[Tensor, "*batch length width"],
    denominator: Float[Tensor, "*batch length"],
    *,
    floor: Float[Tensor, "..."],
) -> Float[Tensor, "*batch length width"]:
    """`total / denominator`, guarded as in `inverse`."""
    # One division per row and a product per entry is much cheaper than a division per entry.
    return total * inverse(denominator, floor=floor)[..., None]
