"""Polynomial attention: weight ∝ (q·k + c)^p, for any power p and c ≥ 0.

A kernel with C(d+p, p) features (fewer when c = 0). Odd powers go negative, and then so can weights and
denominators; even ones cannot. It is not an approximation of softmax, whatever p. High powers need
float64 or short vectors: where q·k is near −c for every key seen, the sum is smaller than the rounding of
its features, and such a row is shrunk towards zero, alike in every form.
"""

from __future__ import annotations

import math

from regard.core.errors import RegardError
from regard.mechanisms.kernel import KernelMechanism
from regard.mechanisms.series import MAX_FEATURES, SeriesKernel


class PolynomialAttention(KernelMechanism):
    """weight ∝ (query · key + constant)^power   (the polynomial kernel; Tsai et al. 2019, sec. 3)."""

    def __init__(
        self,
        *,
        key_dim: int,
        power: int = 2,
        constant: float = 1.0,
        form: str = "auto",
        chunk_size: int = 128,
        max_features: int = MAX_FEATURES,
    ) -> None:
        if power < 1:
            raise RegardError(f"Polynomial attention has power={power}; it needs 1 or more.")
        if constant < 0:
            raise RegardError(
                f"Polynomial attention has constant={constant}; it must be 0 or more, since a "
                "negative one has no real features."
            )
        kernel = SeriesKernel(
            coefficients=[math.comb(power, m) * constant ** (power - m) for m in range(power + 1)],
            width=key_dim,
            max_features=max_features,
            owner=f"Polynomial attention with power={power}",
            advice="Take a smaller power",
        )
        super().__init__(
            kernel=kernel,
            nonnegative=power % 2 == 0,
            # Where q·k is near −c for all keys, the sum drowns in the rounding of its features.
            rows_sum_to_one=False,
            form=form,
            chunk_size=chunk_size,
        )
