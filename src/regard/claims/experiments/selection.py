"""Sampled keys and their attention weights, a worked example of self-attention, and figures.

    kᵢ ~ N(μᵢ, αI);  with varying norm:  k_a ~ N(μ_a, αI + ½μ_aμ_aᵀ), about ε μ_a, ε ~ N(1, ½)

The means are orthonormal, a is the first and b the second. Values are orthonormal too, so errors of outputs
equal errors of weights.

The worked example has three inputs made of four orthogonal vectors of norm β and unscaled dot-product
scores:

    x₁ = u_d + u_b,  x₂ = u_a,  x₃ = u_c + u_b
    Q = (u_d u_dᵀ + u_c u_aᵀ)/β²,  K = I,  V = (u_b u_bᵀ − u_c u_cᵀ)/β²
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import sympy
import torch
from jaxtyping import Float
from scipy.stats import binomtest
from torch import Tensor

from regard.claims.engine import curve_figure, line
from regard.core.records.claim import CurveFigure
from regard.mechanisms.scores.dot_product import DotAttention

A, B = 0, 1


class Share(NamedTuple):
    """A proportion of samples with its 95 % Wilson interval."""

    share: float
    low: float
    high: float


class SampledKeys(NamedTuple):
    """Keys, and the component of k_a along μ_a in each sample."""

    keys: Float[Tensor, "samples keys width"]
    lengths: Float[Tensor, " samples"]


def sampled_keys(
    *, n: int, alpha: float, varying_length: bool, samples: int, seed: int
) -> SampledKeys:
    """Sample keys; the same seed gives the same noise for every alpha."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(samples, n, n, dtype=torch.float64, generator=generator)
    keys = torch.eye(n, dtype=torch.float64) + alpha**0.5 * noise
    if varying_length:
        keys[:, A, A] += 0.5**0.5 * torch.randn(samples, dtype=torch.float64, generator=generator)
    return SampledKeys(keys, keys[:, A, A])


def head_weights(
    keys: Float[Tensor, "samples keys width"], *, of_a: float, of_b: float
) -> Float[Tensor, "samples keys"]:
    """Weights of dot attention for the query of_a · μ_a + of_b · μ_b."""
    query = torch.zeros(len(keys), 1, 1, keys.shape[-1], dtype=keys.dtype)
    query[..., A], query[..., B] = of_a, of_b
    return DotAttention().weights(query, keys[:, None])[:, 0, 0]


def averaging_error(weights: Float[Tensor, "samples keys"]) -> Float[Tensor, " samples"]:
    """Σ |weight − target| with target ½ for a and b: the output error for unit values."""
    target = torch.zeros(weights.shape[1], dtype=weights.dtype)
    target[[A, B]] = 0.5
    return (weights - target).abs().sum(dim=1)


def output_variance(weights: Float[Tensor, "samples keys"]) -> float:
    """Variance of the output: mean squared distance from its mean."""
    return float(weights.var(dim=0).sum())


def proportion(events: Tensor) -> Share:
    """The proportion of true entries."""
    count, total = int(events.sum()), events.numel()
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return Share(count / total, float(interval.low), float(interval.high))


def copy_error(gap: float, *, n: int) -> float:
    """Total weight of the other keys if one has a score gap of `gap`."""
    keys = torch.eye(n, dtype=torch.float64)[None, None]
    return float(DotAttention().weights(gap * keys[:, :, :1], keys)[0, 0, 0, 1:].sum())


def copy_output_error(gap: float, *, n: int) -> float:
    """|c − vⱼ| for vⱼ = 1 with a score gap of `gap` and all other values 0."""
    keys = torch.eye(n, dtype=torch.float64)[None, None]
    value = torch.zeros(1, 1, n, 1, dtype=torch.float64)
    value[:, :, 0] = 1.0
    return abs(float(DotAttention()(gap * keys[:, :, :1], keys, value)) - 1.0)


def average_error(size: float, *, n: int) -> float:
    """Total weight of the keys other than a and b, for orthonormal keys."""
    keys = torch.eye(n, dtype=torch.float64)[None]
    return float(head_weights(keys, of_a=size, of_b=size)[0, 2:].sum())


def mean_error(keys: Float[Tensor, "samples keys width"], size: float) -> float:
    """Mean averaging error of the query C(μ_a + μ_b)."""
    return float(averaging_error(head_weights(keys, of_a=size, of_b=size)).mean())


def two_head_weights(
    keys: Float[Tensor, "samples keys width"], *, size: float
) -> Float[Tensor, "samples keys"]:
    """Mean of the weights of a head for a and a head for b."""
    first, second = head_weights(keys, of_a=size, of_b=0.0), head_weights(keys, of_a=0.0, of_b=size)
    return (first + second) / 2


WIDTH = 6

BETA = sympy.symbols("beta", positive=True)


class Basis(NamedTuple):
    """Four orthogonal vectors, as tensors or as columns of symbols."""

    a: Any
    b: Any
    c: Any
    d: Any


class Matrices(NamedTuple):
    """Q and V; K is the identity."""

    query: Any
    value: Any


def random_basis(beta: float, *, seed: int) -> Basis:
    """Four of the axes of a random rotation, times β."""
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(WIDTH, WIDTH, dtype=torch.float64, generator=generator)
    return Basis(*(beta * torch.linalg.qr(square).Q.T[:4]))


def symbolic_basis() -> Basis:
    """β times the unit vectors."""
    return Basis(*(BETA * sympy.eye(4).col(index) for index in range(4)))


def inputs_of(u: Basis) -> list[Any]:
    """x₁, x₂, x₃."""
    return [u.d + u.b, u.a, u.c + u.b]


def matrices_of(u: Basis, *, squared: Any) -> Matrices:
    """Q and V; `squared` is β²."""

    def outer(left: Any, right: Any) -> Any:
        return left[:, None] @ right[None] if isinstance(left, Tensor) else left * right.T

    return Matrices(
        query=(outer(u.d, u.d) + outer(u.c, u.a)) / squared,
        value=(outer(u.b, u.b) - outer(u.c, u.c)) / squared,
    )


def plain_outputs(inputs: list[Tensor]) -> Float[Tensor, "3 width"]:
    """c₁, c₂, c₃ where queries, keys and values are the inputs themselves."""
    x = torch.stack(inputs)[None, None]
    return DotAttention()(x, x, x)[0, 0]


def outputs(beta: float, *, seed: int) -> Float[Tensor, "3 width"]:
    """c₁, c₂, c₃ with the matrices, by dot attention."""
    u = random_basis(beta, seed=seed)
    matrices, x = matrices_of(u, squared=beta**2), torch.stack(inputs_of(u))
    query, value = x @ matrices.query.T, x @ matrices.value.T
    return DotAttention()(query[None, None], x[None, None], value[None, None])[0, 0]


def errors(beta: float, *, seed: int) -> tuple[float, float]:
    """‖c₁ − u_b‖ and ‖c₂ − (u_b − u_c)‖."""
    u, c = random_basis(beta, seed=seed), outputs(beta, seed=seed)
    return float((c[0] - u.b).norm()), float((c[1] - (u.b - u.c)).norm())


def symbolic_errors() -> tuple[sympy.Expr, sympy.Expr]:
    """Both errors squared, as expressions of β.

    >>> symbolic_errors()[0]
    2*beta**2/(exp(beta**2) + 2)**2
    """
    u = symbolic_basis()
    matrices, keys = matrices_of(u, squared=BETA**2), inputs_of(u)
    squared = []
    for row, target in ((0, u.b), (1, u.b - u.c)):
        powers = [sympy.exp((matrices.query * keys[row]).dot(key)) for key in keys]
        total = sympy.Add(*powers)
        output = sum(
            (power / total * matrices.value * key for power, key in zip(powers, keys, strict=True)),
            sympy.zeros(4, 1),
        )
        error = output - target
        squared.append(sympy.factor(error.dot(error)))
    return squared[0], squared[1]


# Zeros on a logarithmic axis.
LOG_FLOOR = 1e-17


def copying_figure(*, n: int, error: float, gap: float) -> CurveFigure:
    """Copy error by score gap."""
    gap = gap if math.isfinite(gap) else 0.0
    gaps = torch.linspace(min(0.0, 2 * gap), max(1.0, 2 * gap), 41).tolist()
    return curve_figure(
        f"Total weight of the other {n - 1} keys",
        ("score gap", "1 − αⱼ"),
        line("measured", gaps, [max(copy_error(one, n=n), LOG_FLOOR) for one in gaps]),
        log="y",
        marks=((gap, f"e = {error:g}"),),
    )


def weight_scatter_figure(found: SampledKeys, of_a: list[float], *, size: float) -> CurveFigure:
    """Weight of v_a by the norm of k_a, for 400 samples."""
    shown = slice(0, 400)
    points = line("sample", found.lengths[shown], of_a[shown], points_only=True)
    return curve_figure(
        f"Weight of v_a, C = {size:g}",
        ("ε, component of k_a along μ_a", "weight of v_a"),
        points,
        marks=((0.0, "ε = 0"), (1.0, "ε = 1")),
    )
