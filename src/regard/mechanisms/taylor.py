"""Taylor attention: exp(q·k/√d) cut off after K terms of its series, as a kernel with features.

With more terms it approaches softmax attention where scores are small, and it stays linear in length:
C(d+K−1, K−1) features. An even number of terms is a polynomial of odd degree, which goes negative for
scores far below zero, and weights and denominators with it.
"""

from __future__ import annotations

import math

from regard.core.errors import RegardError
from regard.mechanisms.kernel import KernelMechanism
from regard.mechanisms.series import MAX_FEATURES, SeriesKernel


class TaylorAttention(KernelMechanism):
    """weight ∝ Σ_{m < num_terms} (scale · query · key)^m / m!   (Keles et al. 2023; Arora et al. 2024).

    `scale` is 1/√key_dim unless given; scale=1 is the series of exp(query · key) itself.
    """

    def __init__(
        self,
        *,
        key_dim: int,
        num_terms: int = 3,
        scale: float | None = None,
        form: str = "auto",
        chunk_size: int = 128,
        max_features: int = MAX_FEATURES,
    ) -> None:
        kernel = taylor_kernel(
            key_dim=key_dim, num_terms=num_terms, scale=scale, max_features=max_features
        )
        # A series of even degree is positive everywhere, and nowhere near zero.
        is_even = num_terms % 2 == 1
        super().__init__(
            kernel=kernel,
            nonnegative=is_even,
            rows_sum_to_one=is_even,
            form=form,
            chunk_size=chunk_size,
        )


def taylor_kernel(
    *, key_dim: int, num_terms: int, scale: float | None, max_features: int
) -> SeriesKernel:
    """The first `num_terms` terms of exp(scale · q·k)."""
    if num_terms < 1:
        raise RegardError(f"Taylor attention has num_terms={num_terms}; it needs 1 or more.")
    factor = key_dim**-0.5 if scale is None else scale
    if factor <= 0:
        raise RegardError(f"Taylor attention has scale={factor}; it must be positive.")
    return SeriesKernel(
        coefficients=[factor**m / math.factorial(m) for m in range(num_terms)],
        width=key_dim,
        max_features=max_features,
        owner=f"Taylor attention with num_terms={num_terms}",
        advice="Take fewer terms",
    )
