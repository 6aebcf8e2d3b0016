"""Kernels that are a power series of the dot product: κ(q, k) = Σ_m c_m (q·k)^m.

Their features are the monomials of the key up to the degree of the series: many, so they are made chunk
by chunk and never kept; between the keys and queries of a chunk the kernel is evaluated from the dot
products, without features. Taylor and polynomial attention differ only in their coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.mechanisms.kernels.chunked import ChunkKernel, causal_average_cost
from regard.mechanisms.kernels.linear_attention import FeatureKernel, KernelMechanism
from regard.mechanisms.kernels.monomials import (
    monomial_arithmetic,
    monomial_features,
    monomial_gradient,
    num_monomials,
)

# Beyond this a head's running sum outweighs the keys and values of any sequence that fits in memory.
MAX_FEATURES = 10_000


class SeriesKernel(FeatureKernel):
    """Σ_m coefficients[m] (q·k)^m, with coefficients that are not negative."""

    is_transforming = False
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
                f"{owner} on keys of width {width} needs {count:,} features a head, more than "
                f"max_features={max_features:,}. {advice}, make heads narrower, or raise max_features."
            )

    def num_features(self, width: int) -> int:
        present = (degree for degree, factor in enumerate(self.coefficients) if factor)
        return num_monomials(width, present)

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        """Nothing is done before the dot product."""

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """Nothing was done."""
        return gradient

    def features(
        self, inputs: Float[Tensor, "*batch length width"]
    ) -> Float[Tensor, "*batch length num_features"]:
        """The weighted monomials, the same for queries and keys."""
        return monomial_features(inputs, coefficients=self.coefficients)

    query_features = features
    key_features = features

    def features_gradient(self, inputs: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the inputs, given that of their features."""
        return monomial_gradient(inputs, gradient, coefficients=self.coefficients)

    def feature_cost(self, *, queries: int, keys: int, width: int) -> Cost:
        length = queries + keys
        return Cost(
            arithmetic=length * monomial_arithmetic(width, self.coefficients),
            memory=length * self.num_features(width),
        )

    @property
    def curve_arithmetic(self) -> int:
        """What `curve` takes for one dot product: a product and a sum a degree."""
        return 2 * max(len(self.coefficients) - 1, 1)

    def norm_arithmetic(self, width: int) -> int:
        return 2 * width + self.curve_arithmetic

    def curve(self, dots: Tensor) -> Tensor:
        """The series at these dot products."""
        return _polynomial(self.coefficients, dots)

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the dot products, given that of the series."""
        derivative = [m * c for m, c in enumerate(self.coefficients)][1:] or [0.0]
        return gradient.mul_(_polynomial(derivative, dots))

    def norms(self, inputs: Float[Tensor, "*batch length width"]) -> Float[Tensor, "*batch length"]:
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
            products=2 * pairs * width,
            arithmetic=self.curve_arithmetic * pairs,
            backward_products=4 * pairs * width,
            memory=2 * pairs,
        )

    def chunked(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, ChunkKernel]:
        return query, key, self

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        return causal_average_cost(
            query_length=shape.query_length,
            key_length=shape.key_length,
            pair_width=shape.key_dim,
            num_features=self.num_features(shape.key_dim),
            value_dim=shape.value_dim,
            chunk_size=chunk_size,
            curve_arithmetic=self.curve_arithmetic,
            feature_arithmetic=monomial_arithmetic(shape.key_dim, self.coefficients),
        )


def _polynomial(coefficients: Sequence[float], at: Tensor) -> Tensor:
    """Horner's rule, in place but for its first step."""
    *lower, highest = coefficients
    if not lower:
        # A constant, but one of the right shape and through which gradients (all zero) can pass.
        return at.mul(0.0).add_(highest)
    result = at.mul(highest).add_(lower.pop())
    for coefficient in reversed(lower):
        result = (result * at if at.requires_grad else result.mul_(at)).add_(coefficient)
    return result


# Taylor attention: exp(q·k/√d) cut off after K terms of its series, as a kernel with features.
#
# With more terms it approaches softmax attention where scores are small, and it stays linear in
# length: C(d+K−1, K−1) features. An even number of terms is a polynomial of odd degree, which goes
# negative for scores far below zero, and weights and denominators with it.


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


# Polynomial attention: weight ∝ (q·k + c)^p, for any power p and c ≥ 0.
#
# A kernel with C(d+p, p) features (fewer when c = 0). Odd powers go negative, and then so can
# weights and denominators; even ones cannot. It is not an approximation of softmax, whatever p.
# High powers need float64 or short vectors: where q·k is near −c for every key seen, the sum is
# smaller than the rounding of its features, and such a row is shrunk towards zero, alike in every
# form.


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
