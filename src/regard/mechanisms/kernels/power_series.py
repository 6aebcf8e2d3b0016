"""Taylor and polynomial attention: power-series kernels κ(q, k) = Σ_m c_m (q·k)^m.

The features are all monomials up to the degree of the series. They are many, so they are computed chunk
by chunk and never stored; within a chunk the kernel is evaluated from dot products.

    taylor      exp(q·k/√d) to K terms: C(d+K−1, K−1) features; approaches softmax for small scores
    polynomial  (q·k + c)^p: C(d+p, p) features, fewer for c = 0; not an approximation of softmax

Odd degrees (an even number of terms) can be negative, and so can weights and denominators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.options import NonNegativeFloat, PositiveFloat, PositiveInt, validated
from regard.mechanisms.kernels.chunked import ChunkKernel, DotProduct, causal_average_cost
from regard.mechanisms.kernels.linear_attention import (
    FeatureKernel,
    Features,
    FormChoice,
    KernelMechanism,
    Vectors,
)
from regard.mechanisms.kernels.monomials import (
    monomial_features,
    monomial_gradient,
    monomial_ops,
    num_monomials,
)

# Beyond this, the running sum of one head is larger than the keys and values of any sequence in memory.
MAX_FEATURES = 10_000


class SeriesKernel(FeatureKernel, DotProduct):
    """Σ_m coefficients[m] (q·k)^m, with coefficients that are not negative."""

    cancels = True

    def __init__(
        self,
        *,
        coefficients: Sequence[float],
        width: int,
        max_features: int,
        owner: str,
        advice: str,
    ) -> None:
        super().__init__()
        self.coefficients = tuple(coefficients)
        count = self.num_features(width)
        if count > max_features:
            raise RegardError(
                f"{owner} on keys of width {width} needs {count:,} features per head, more than "
                f"max_features={max_features:,}. {advice}, make heads narrower, or raise max_features."
            )

    def num_features(self, width: int) -> int:
        present = (degree for degree, factor in enumerate(self.coefficients) if factor)
        return num_monomials(width, present)

    def features(self, inputs: Vectors) -> Features:
        """The weighted monomials, the same for queries and keys."""
        return monomial_features(inputs, coefficients=self.coefficients)

    query_features = features
    key_features = features

    def features_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        return monomial_gradient(kept, gradient, coefficients=self.coefficients)

    def feature_cost(self, *, queries: int, keys: int, width: int) -> Cost:
        length = queries + keys
        return Cost(
            elementwise_ops=length * monomial_ops(width, self.coefficients),
            memory=length * self.num_features(width),
        )

    @property
    def curve_ops(self) -> int:
        """Elementwise operations of `curve` per dot product: a product and a sum per degree."""
        return 2 * max(len(self.coefficients) - 1, 1)

    def norm_ops(self, width: int) -> int:
        return 2 * width + self.curve_ops

    def curve(self, dots: Tensor) -> Tensor:
        return _polynomial(self.coefficients, dots)

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        derivative = [m * c for m, c in enumerate(self.coefficients)][1:] or [0.0]
        return gradient.mul_(_polynomial(derivative, dots))

    def norms(self, inputs: Vectors) -> Float[Tensor, "*batch length"]:
        return self.curve(inputs.square().sum(dim=-1)).sqrt()

    def pairwise(
        self,
        query: Float[Tensor, "*batch query_length width"],
        key: Float[Tensor, "*batch key_length width"],
    ) -> Float[Tensor, "*batch query_length key_length"]:
        return self.curve(query @ key.mT)

    def pair_cost(self, *, query_length: int, key_length: int, width: int) -> Cost:
        pairs = query_length * key_length
        return Cost(
            matmul_flops=2 * pairs * width,
            elementwise_ops=self.curve_ops * pairs,
            backward_matmul_flops=4 * pairs * width,
            memory=2 * pairs,
        )

    def chunked(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, ChunkKernel]:
        return query, key, self

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        return causal_average_cost(
            shape,
            pair_width=shape.key_dim,
            num_features=self.num_features(shape.key_dim),
            chunk_size=chunk_size,
            curve_ops=self.curve_ops,
            feature_ops=monomial_ops(shape.key_dim, self.coefficients),
        )


def _polynomial(coefficients: Sequence[float], at: Tensor) -> Tensor:
    """Horner's rule, in place after its first step."""
    *lower, highest = coefficients
    if not lower:
        # A constant of the right shape, through which zero gradients can flow.
        return at.mul(0.0).add_(highest)
    result = at.mul(highest).add_(lower.pop())
    for coefficient in reversed(lower):
        result = (result * at if at.requires_grad else result.mul_(at)).add_(coefficient)
    return result


class TaylorAttention(KernelMechanism):
    """weight ∝ Σ_{m < num_terms} (scale · query · key)^m / m!   (Keles et al. 2023; Arora et al. 2024).

    `scale` defaults to 1/√key_dim; scale=1 is the series of exp(query · key).
    """

    @validated
    def __init__(
        self,
        *,
        key_dim: PositiveInt,
        num_terms: PositiveInt = 3,
        scale: PositiveFloat | None = None,
        form: FormChoice = "auto",
        chunk_size: PositiveInt = 128,
        max_features: PositiveInt = MAX_FEATURES,
    ) -> None:
        kernel = taylor_kernel(
            key_dim=key_dim, num_terms=num_terms, scale=scale, max_features=max_features
        )
        # A series of even degree is positive and bounded away from zero.
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
    factor = key_dim**-0.5 if scale is None else scale
    return SeriesKernel(
        coefficients=[factor**m / math.factorial(m) for m in range(num_terms)],
        width=key_dim,
        max_features=max_features,
        owner=f"Taylor attention with num_terms={num_terms}",
        advice="Take fewer terms",
    )


class PolynomialAttention(KernelMechanism):
    """weight ∝ (query · key + constant)^power   (the polynomial kernel; Tsai et al. 2019, sec. 3).

    High powers need float64 or short vectors: where q·k is near −constant for all keys, the denominator
    is below the rounding error of its features, and the row is shrunk towards zero, in every form.
    """

    @validated
    def __init__(
        self,
        *,
        key_dim: PositiveInt,
        power: PositiveInt = 2,
        constant: NonNegativeFloat = 1.0,  # a negative one has no real features
        form: FormChoice = "auto",
        chunk_size: PositiveInt = 128,
        max_features: PositiveInt = MAX_FEATURES,
    ) -> None:
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
            # Where q·k is near −constant for all keys, the denominator is rounding noise.
            rows_sum_to_one=False,
            form=form,
            chunk_size=chunk_size,
        )
