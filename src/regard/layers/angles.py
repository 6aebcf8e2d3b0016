"""The angles that sinusoidal and rotary positions share: position × base^(−2i/width).

A wave for each pair of features, from one turn in 2π positions to one in 2π·base positions
(Vaswani et al. 2017).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import RegardError


def frequencies(
    *, width: int, base: float, device: torch.device | None = None
) -> Float[Tensor, " pairs"]:
    """How far each pair of features turns from one position to the next, in radians."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return base**-exponents


def angles(
    positions: Int[Tensor, "*batch length"], *, width: int, base: float
) -> Float[Tensor, "*batch length pairs"]:
    """The angle of every pair of features at every position.

    In float64: at position 10,000 a float32 angle would be wrong in its fourth decimal.
    """
    return positions.double()[..., None] * frequencies(
        width=width, base=base, device=positions.device
    )


def angle_arithmetic(*, length: int, width: int) -> int:
    """What the positions and their angles take: three numbers a wave, then a product each."""
    waves = width // 2
    return length + 3 * waves + length * waves


def require_pairs(what: str, width: object) -> None:
    """Refuse a width whose features do not come in pairs."""
    if isinstance(width, bool) or not isinstance(width, int) or width < 2 or width % 2:
        raise RegardError(
            f"{what} turn features in pairs, but the width is {width}. Choose an even width."
        )
