"""Keys drawn about orthonormal means, and the weights that a head gives them.

    kᵢ ~ N(μᵢ, αI),  and, where its length swings,  k_a ~ N(μ_a, αI + ½μ_aμ_aᵀ), about ε μ_a, ε ~ N(1, ½)

The means are the axes, a the first and b the second. Values are orthonormal too, so that an output is as
far from another as their weights are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import sympy
import torch
from jaxtyping import Float
from scipy.stats import binomtest
from torch import Tensor

from regard.claims.engine import line
from regard.core.records.claim import Curve, CurvePicture, MatrixPicture
from regard.mechanisms.scores.dot_product import DotAttention

A, B = 0, 1


class Share(NamedTuple):
    """A share of draws, with Wilson's 95 % interval."""

    share: float
    low: float
    high: float


class Draws(NamedTuple):
    """Keys, and how long k_a is along μ_a in each draw."""

    keys: Float[Tensor, "draws keys width"]
    lengths: Float[Tensor, " draws"]


def drawn_keys(*, n: int, alpha: float, swings: bool, draws: int, seed: int) -> Draws:
    """The same seed draws the same noise, whatever alpha."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(draws, n, n, dtype=torch.float64, generator=generator)
    keys = torch.eye(n, dtype=torch.float64) + alpha**0.5 * noise
    if swings:
        keys[:, A, A] += 0.5**0.5 * torch.randn(draws, dtype=torch.float64, generator=generator)
    return Draws(keys, keys[:, A, A])


def head_weights(
    keys: Float[Tensor, "draws keys width"], *, of_a: float, of_b: float
) -> Float[Tensor, "draws keys"]:
    """What dot attention gives every key, for the query of_a · μ_a + of_b · μ_b."""
    query = torch.zeros(len(keys), 1, 1, keys.shape[-1], dtype=keys.dtype)
    query[..., A], query[..., B] = of_a, of_b
    return DotAttention().weights(query, keys[:, None])[:, 0, 0]


def distance_from_half(weights: Float[Tensor, "draws keys"]) -> Float[Tensor, " draws"]:
    """Σ |weight − target|, the target being ½ for a and b: what an output is off, for unit values."""
    target = torch.zeros(weights.shape[1], dtype=weights.dtype)
    target[[A, B]] = 0.5
    return (weights - target).abs().sum(dim=1)


def spread(weights: Float[Tensor, "draws keys"]) -> float:
    """The variance of the output: mean squared distance from its own mean."""
    return float(weights.var(dim=0).sum())


def share_of(happens: Tensor) -> Share:
    """How often something happens."""
    count, total = int(happens.sum()), happens.numel()
    interval = binomtest(count, total).proportion_ci(method="wilson")
    return Share(count / total, float(interval.low), float(interval.high))


def copy_error(gap: float, *, n: int) -> float:
    """What all other keys get when one leads them by `gap`."""
    keys = torch.eye(n, dtype=torch.float64)[None, None]
    return float(DotAttention().weights(gap * keys[:, :, :1], keys)[0, 0, 0, 1:].sum())


def copy_distance(gap: float, *, n: int) -> float:
    """|c − vⱼ| where the key of vⱼ = 1 leads by `gap` and all other values are 0."""
    keys = torch.eye(n, dtype=torch.float64)[None, None]
    value = torch.zeros(1, 1, n, 1, dtype=torch.float64)
    value[:, :, 0] = 1.0
    return abs(float(DotAttention()(gap * keys[:, :, :1], keys, value)) - 1.0)


def average_error(size: float, *, n: int) -> float:
    """What the keys other than a and b get, for orthonormal keys."""
    keys = torch.eye(n, dtype=torch.float64)[None]
    return float(head_weights(keys, of_a=size, of_b=size)[0, 2:].sum())


def mean_error(keys: Float[Tensor, "draws keys width"], size: float) -> float:
    """Of the query C(μ_a + μ_b), over draws."""
    return float(distance_from_half(head_weights(keys, of_a=size, of_b=size)).mean())


def two_head_weights(
    keys: Float[Tensor, "draws keys width"], *, size: float
) -> Float[Tensor, "draws keys"]:
    """The mean of the weights of a head for a and a head for b."""
    first, second = head_weights(keys, of_a=size, of_b=0.0), head_weights(keys, of_a=0.0, of_b=size)
    return (first + second) / 2


# The worked example of self-attention with three inputs made of four orthogonal vectors of length
# β.
#
# x₁ = u_d + u_b,  x₂ = u_a,  x₃ = u_c + u_b        scores are dot products, unscaled
#
# Q = (u_d u_dᵀ + u_c u_aᵀ)/β²,  K = I,  V = (u_b u_bᵀ − u_c u_cᵀ)/β²


WIDTH = 6

BETA = sympy.symbols("beta", positive=True)


class Basis(NamedTuple):
    """Four orthogonal vectors, as tensors or as columns of symbols."""

    a: Any
    b: Any
    c: Any
    d: Any


class Matrices(NamedTuple):
    """Of queries and values; keys are the inputs."""

    query: Any
    value: Any


def drawn_basis(beta: float, *, seed: int) -> Basis:
    """Four of the axes of a random rotation, times β."""
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(WIDTH, WIDTH, dtype=torch.float64, generator=generator)
    return Basis(*(beta * torch.linalg.qr(square).Q.T[:4]))


def symbolic_basis() -> Basis:
    """β times the unit vectors."""
    return Basis(*(BETA * sympy.eye(4).col(place) for place in range(4)))


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
    u = drawn_basis(beta, seed=seed)
    matrices, x = matrices_of(u, squared=beta**2), torch.stack(inputs_of(u))
    query, value = x @ matrices.query.T, x @ matrices.value.T
    return DotAttention()(query[None, None], x[None, None], value[None, None])[0, 0]


def errors(beta: float, *, seed: int) -> tuple[float, float]:
    """‖c₁ − u_b‖ and ‖c₂ − (u_b − u_c)‖."""
    u, c = drawn_basis(beta, seed=seed), outputs(beta, seed=seed)
    return float((c[0] - u.b).norm()), float((c[1] - (u.b - u.c)).norm())


def symbolic_errors() -> tuple[sympy.Expr, sympy.Expr]:
    """The same two, squared, for every β.

    >>> symbolic_errors()[0]
    2*beta**2/(exp(beta**2) + 2)**2
    """
    u = symbolic_basis()
    matrices, keys = matrices_of(u, squared=BETA**2), inputs_of(u)
    found = []
    for row, wanted in ((0, u.b), (1, u.b - u.c)):
        powers = [sympy.exp((matrices.query * keys[row]).dot(key)) for key in keys]
        total = sympy.Add(*powers)
        output = sum(
            (power / total * matrices.value * key for power, key in zip(powers, keys, strict=True)),
            sympy.zeros(4, 1),
        )
        apart = output - wanted
        found.append(sympy.factor(apart.dot(apart)))
    return found[0], found[1]


# The pictures of the claims about selecting and averaging.


# What is nothing is drawn so on a scale of logarithms.
SMALLEST = 1e-17


def copying_picture(*, n: int, error: float, gap: float) -> CurvePicture:
    """What is not copied, by the gap."""
    gap = gap if math.isfinite(gap) else 0.0
    gaps = torch.linspace(min(0.0, 2 * gap), max(1.0, 2 * gap), 41).tolist()
    return CurvePicture(
        title=f"what the other {n - 1} keys get",
        x_label="score gap",
        y_label="1 − αⱼ",
        y_scale="log",
        curves=(
            line(label="found", x=gaps, y=(max(copy_error(one, n=n), SMALLEST) for one in gaps)),
        ),
        marks=((gap, f"e = {error:g}"),),
    )


def averaging_picture(*, error: float) -> CurvePicture:
    """What the other keys get, by C, for several numbers of keys."""
    sizes = torch.linspace(0, 16, 33).tolist()
    return CurvePicture(
        title="what the keys other than a and b get",
        x_label="C",
        y_label="1 − α_a − α_b",
        y_scale="log",
        curves=tuple(
            line(label=f"n = {n}", x=sizes, y=(max(average_error(c, n=n), SMALLEST) for c in sizes))
            for n in (4, 16, 64, 256)
        ),
        marks=tuple(
            (math.log((n - 2) * (1 - error) / (2 * error)), f"n = {n}") for n in (4, 16, 64, 256)
        ),
    )


def noise_picture(
    sizes: list[float], keys: Float[Tensor, "draws keys width"], *, error: float, alpha: float
) -> CurvePicture:
    """The error by C: its mean, and where 9 of 10 draws lie."""
    found = [distance_from_half(head_weights(keys, of_a=c, of_b=c)) for c in sizes]
    low, high = ([max(float(one.quantile(q)), SMALLEST) for one in found] for q in (0.05, 0.95))
    mean = Curve(
        label="mean, and 9 of 10 draws",
        x=tuple(sizes),
        y=tuple(max(float(one.mean()), SMALLEST) for one in found),
        low=tuple(low),
        high=tuple(high),
    )
    return CurvePicture(
        title=f"distance from ½(v_a + v_b), α = {alpha:g}",
        x_label="C",
        y_label="error",
        x_scale="log",
        y_scale="log",
        curves=(mean, line(label="allowed", x=sizes, y=[error] * len(sizes), dashed=True)),
        marks=((1 / (2 * alpha**0.5), "2C√α = 1"),) if alpha > 0 else (),
    )


def swing_picture(found: Draws, of_a: list[float], *, size: float) -> CurvePicture:
    """The weight of v_a by the length of k_a, for some of the draws."""
    shown = slice(0, 400)
    points = Curve(
        label="one draw",
        x=tuple(found.lengths[shown].tolist()),
        y=tuple(of_a[shown]),
        points_only=True,
    )
    return CurvePicture(
        title=f"the weight of v_a, C = {size:g}",
        x_label="ε, the length of k_a along μ_a",
        y_label="weight of v_a",
        curves=(points,),
        marks=((0.0, "ε = 0"), (1.0, "ε = 1")),
    )


def spread_picture(keys: Float[Tensor, "draws keys width"]) -> CurvePicture:
    """The variance of the output by C."""
    sizes = [2.0**step for step in range(8)]
    one = [spread(head_weights(keys, of_a=c, of_b=c)) for c in sizes]
    two = [spread(two_head_weights(keys, size=c)) for c in sizes]
    return CurvePicture(
        title="variance of the output",
        x_label="C",
        y_label="variance",
        x_scale="log",
        curves=(line(label="one head", x=sizes, y=one), line(label="two heads", x=sizes, y=two)),
    )


def errors_picture(*, seed: int) -> CurvePicture:
    """Both errors by β, computed, and by formula."""
    betas = torch.linspace(0.25, 4, 16, dtype=torch.float64).tolist()
    found = [errors(beta, seed=seed) for beta in betas]
    formulas = [
        line(
            label=f"√{f}·β/(e^β² + 2)",
            x=betas,
            y=[math.sqrt(f) * beta / (math.exp(beta**2) + 2) for beta in betas],
            dashed=True,
        )
        for f in (2, 5)
    ]
    return CurvePicture(
        title="how far the outputs are off",
        x_label="β",
        y_label="error",
        y_scale="log",
        curves=(
            line(label="‖c₁ − u_b‖", x=betas, y=(one for one, _ in found)),
            line(label="‖c₂ − (u_b − u_c)‖", x=betas, y=(two for _, two in found)),
            *formulas,
        ),
    )


def queries_picture(beta: float, *, seed: int) -> MatrixPicture:
    """The three queries in the basis a, b, c, d."""
    u = drawn_basis(beta, seed=seed)
    matrix = matrices_of(u, squared=beta**2).query
    parts = [[float((matrix @ x) @ axis) / beta for axis in u] for x in inputs_of(u)]
    return MatrixPicture(
        title="the queries along u_a, u_b, u_c, u_d",
        values=tuple(map(tuple, parts)),
        row_labels=("q₁", "q₂", "q₃"),
        column_labels=("u_a", "u_b", "u_c", "u_d"),
    )
