"""Experiments with kernel attention: symbolic feature maps, approximation error, costs, figures.

Symbolic feature maps are those of `regard.mechanisms.kernels.power_series` without rounding: an identity
is a difference that expands to zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np
import sympy
import torch
from jaxtyping import Float
from torch import Tensor

from regard.claims.engine import (
    bisect_last_true,
    curve_figure,
    interleaved_seconds,
    line,
    lines,
    matrix_figure,
)
from regard.core.cost import AttentionShape
from regard.core.counter import Counter
from regard.core.counting import random_inputs
from regard.core.mechanism import Mechanism
from regard.core.records.claim import CurveFigure, MatrixFigure
from regard.costs.predict import crossover
from regard.costs.workloads import attention_workload
from regard.mechanisms.kernels.linear_attention import KernelMechanism
from regard.mechanisms.kernels.power_series import PolynomialAttention, TaylorAttention
from regard.mechanisms.scores.dot_product import DotAttention

Symbols = Sequence[sympy.Expr]


def vectors(key_dim: int) -> tuple[tuple[sympy.Symbol, ...], tuple[sympy.Symbol, ...]]:
    """Symbolic query and key."""
    return sympy.symbols(f"q1:{key_dim + 1}"), sympy.symbols(f"k1:{key_dim + 1}")


def dot(left: Symbols, right: Symbols) -> sympy.Expr:
    """Dot product.

    >>> dot(*vectors(2))
    k1*q1 + k2*q2
    """
    return sympy.Add(*(one * other for one, other in zip(left, right, strict=True)))


def taylor_features(x: Symbols, *, terms: int) -> list[sympy.Expr]:
    """All monomials of degree below `terms`, divided by √(product of the factorials of their exponents).

    >>> taylor_features(sympy.symbols("x y"), terms=3)
    [1, x, y, sqrt(2)*x**2/2, x*y, sqrt(2)*y**2/2]
    """
    return [
        sympy.Mul(*chosen) / sympy.sqrt(sympy.prod(sympy.factorial(chosen.count(s)) for s in x))
        for degree in range(terms)
        for chosen in combinations_with_replacement(x, degree)
    ]


def outer_features(x: Symbols, *, divisor: int) -> list[sympy.Expr]:
    """vec(xxᵀ)/√divisor."""
    return [one * other / sympy.sqrt(divisor) for one in x for other in x]


def square_features(x: Symbols, *, linear_factor: int) -> list[sympy.Expr]:
    """1, √linear_factor·xᵢ, xᵢ², √2·xᵢxⱼ: with linear_factor=2 those of (q·k + 1)²."""
    return [
        sympy.Integer(1),
        *(sympy.sqrt(linear_factor) * one for one in x),
        *(one**2 for one in x),
        *(sympy.sqrt(2) * one * other for one, other in combinations(x, 2)),
    ]


def difference(left: sympy.Expr, right: sympy.Expr) -> sympy.Expr:
    """Left minus right, expanded; 0 exactly if they are the same polynomial."""
    return sympy.expand(left - right)


def at_ones(expression: sympy.Expr) -> float:
    """The value with every symbol set to 1.

    >>> q, k = vectors(3)
    >>> at_ones(dot(q, k))
    3.0
    """
    return float(expression.subs(dict.fromkeys(expression.free_symbols, 1)))


def square_gap(*, key_dim: int, linear_factor: int) -> sympy.Expr:
    """φ(q)·φ(k) minus (q·k + 1)², expanded."""
    q, k = vectors(key_dim)
    left, right = (square_features(x, linear_factor=linear_factor) for x in (q, k))
    return difference(dot(left, right), (dot(q, k) + 1) ** 2)


def feature_error(mechanism: KernelMechanism, *, key_dim: int, seed: int) -> float:
    """Largest relative error of φ(q)·φ(k) against κ(q, k), for random vectors, some of them large."""
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 50, key_dim, dtype=torch.float64, generator=generator)
    q, k = torch.cat([q, 10 * q]), torch.cat([k, -10 * q])
    kernel = mechanism.kernel
    exact = kernel.pairwise(q, k)
    computed = kernel.query_features(q) @ kernel.key_features(k).mT
    # Rounding is proportional to the norms of the features, which can cancel.
    size = 1 + kernel.norms(q)[:, None] * kernel.norms(k)
    return float(((computed - exact).abs() / size).max())


def feature_counts(*, key_dim: int, terms: int) -> dict[str, int]:
    """Features of full and of symmetric tensor powers, of the mechanism, and the rank of the kernel."""
    kernel = TaylorAttention(key_dim=key_dim, num_terms=terms, scale=1.0).kernel
    symmetric = math.comb(key_dim + terms - 1, terms - 1)
    points = torch.randn(
        2 * symmetric, key_dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    gram = kernel.pairwise(points, points).numpy()
    lengths = np.sqrt(np.diag(gram))
    return {
        "tensor": sum(key_dim**i for i in range(terms)),
        "symmetric": symmetric,
        "made": int(kernel.key_features(points).shape[-1]),
        "rank": int(np.linalg.matrix_rank(gram / np.outer(lengths, lengths), tol=1e-11)),
    }


# Grid points in [−R, R] for the scores of the other keys.
GRID_POINTS = 17
# Upper end of the search for R.
MAX_NORM_BOUND = 30.0
# Weights are computed from scores, so no features are built.
UNBOUNDED = 10**9


def adversarial_scores(norm_bound: float, *, keys: int) -> Float[Tensor, "patterns keys"]:
    """Score patterns: some keys at an end of [−norm_bound, norm_bound], the others at one grid point."""
    grid = torch.linspace(-norm_bound, norm_bound, GRID_POINTS, dtype=torch.float64)
    first = torch.arange(keys) < torch.arange(1, keys)[:, None]
    patterns = [
        torch.where(first[:, None], end, grid[:, None]) for end in (-norm_bound, norm_bound)
    ]
    return torch.cat(patterns).flatten(0, 1)


def worst_error(*, terms: int, norm_bound: float, keys: int) -> float:
    """Largest Σⱼ |weight − softmax weight|: the output error for values in [−1, 1].

    Kernels depend on q·k only, so ‖q‖‖k‖ ≤ R means scores in [−R, R]. Scores between the grid points may
    have an error that is about a thousandth larger.
    """
    key = adversarial_scores(norm_bound, keys=keys)[:, None, :, None]
    query = torch.ones(len(key), 1, 1, 1, dtype=torch.float64)
    taylor = TaylorAttention(key_dim=1, num_terms=terms, scale=1.0, max_features=UNBOUNDED)
    error = taylor.weights(query, key) - DotAttention().weights(query, key)
    return float(error.abs().sum(dim=-1).max())


def output_error(*, terms: int, norm: float, key_dim: int, keys: int, seed: int) -> float:
    """Largest |output − softmax output| for random vectors with ‖q‖‖k‖ = norm, computed with features."""
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(1, 1, keys, key_dim, dtype=torch.float64, generator=generator) for _ in range(3)
    )
    query, key = (norm**0.5 * x / x.norm(dim=-1, keepdim=True) for x in (query, key))
    taylor = TaylorAttention(
        key_dim=key_dim, num_terms=terms, scale=1.0, form="linear", max_features=UNBOUNDED
    )
    return float((taylor(query, key, value) - DotAttention()(query, key, value)).abs().max())


def series_at(scores: Float[Tensor, " scores"], *, terms: int) -> Float[Tensor, " scores"]:
    """The unnormalised kernel at these scores."""
    taylor = TaylorAttention(key_dim=1, num_terms=terms, scale=1.0, max_features=UNBOUNDED)
    return taylor.kernel.pairwise(torch.ones(1, 1, dtype=torch.float64), scores[:, None])[0]


def largest_norm_bound(*, terms: int, error: float, keys: int) -> float:
    """Largest ‖q‖‖k‖ at which the weights are within the error of softmax; 0 if there is none."""

    def within(norm_bound: float) -> bool:
        return worst_error(terms=terms, norm_bound=norm_bound, keys=keys) <= error

    return bisect_last_true(within, low=0.0, high=MAX_NORM_BOUND, bisections=24) or 0.0


def first_negative_score(terms: int) -> float | None:
    """The score below which the series is negative; None if it never is."""

    def nonnegative(depth: float) -> bool:
        return bool(series_at(torch.tensor([-depth], dtype=torch.float64), terms=terms)[0] >= 0)

    depths = torch.linspace(0, MAX_NORM_BOUND, 3001, dtype=torch.float64)
    below = (series_at(-depths, terms=terms) < 0).nonzero()
    if not len(below):
        return None
    index = int(below[0])
    depth = bisect_last_true(nonnegative, low=float(depths[index - 1]), high=float(depths[index]))
    return None if depth is None else -depth


class MemoryShape(NamedTuple):
    """Length N, key dimension D, value dimension M."""

    length: int
    key_dim: int
    value_dim: int

    @property
    def inputs(self) -> int:
        """Number of elements of queries, keys and values."""
        return self.length * (2 * self.key_dim + self.value_dim)


def count_attention_ops(
    mechanism: Mechanism, *, length: int, key_dim: int, value_dim: int = 0
) -> Counter:
    """Operations of one call; value_dim defaults to key_dim."""
    shape = AttentionShape(
        query_length=length, key_length=length, key_dim=key_dim, value_dim=value_dim or key_dim
    )
    tensors = random_inputs(mechanism, shape, queries=length, keys=length)
    with torch.no_grad(), Counter() as counter:
        mechanism(**tensors)
    return counter


def peak_numbers(shape: MemoryShape) -> int:
    """Peak memory, in numbers, of softmax attention with materialised weights, inputs included."""
    query, key = torch.randn(2, 1, 1, shape.length, shape.key_dim)
    value = torch.randn(1, 1, shape.length, shape.value_dim)
    with torch.no_grad(), Counter() as counter:
        DotAttention().weights(query, key) @ value
    return shape.inputs + counter.peak_memory


def counted_crossing(kernel: Mechanism, *, key_dim: int, lengths: Sequence[int]) -> int | None:
    """The length from which the kernel needs fewer FLOPs than softmax attention."""

    def flops(mechanism: Mechanism) -> Callable[[int], float]:
        return lambda length: count_attention_ops(mechanism, length=length, key_dim=key_dim).flops

    return crossover(flops(DotAttention()), flops(kernel), lengths)


def seconds_by_length(
    *, key_dim: int, heads: int, lengths: Sequence[int], rounds: int
) -> dict[str, list[list[float]]]:
    """Mechanism → seconds of every round at every length, interleaved."""

    def label(name: str, length: int) -> str:
        return f"{name} at {length}"

    calls = {
        label(name, length): attention_workload(
            name,
            AttentionShape(
                num_heads=heads,
                query_length=length,
                key_length=length,
                key_dim=key_dim,
                value_dim=key_dim,
            ),
            "forward",
            options,
        ).prepare()
        for name, options in (("dot", {}), ("polynomial", {"form": "linear"}))
        for length in lengths
    }
    seconds = interleaved_seconds(calls, rounds=rounds)
    return {
        name: [seconds[label(name, length)] for length in lengths] for name in ("dot", "polynomial")
    }


def measured_crossings(
    seconds: dict[str, list[list[float]]], *, lengths: Sequence[int]
) -> list[int | None]:
    """Per round, the length from which the kernel is faster; None if it never is."""
    indices = {length: index for index, length in enumerate(lengths)}
    rounds = range(len(seconds["dot"][0]))

    def timer(name: str, number: int) -> Callable[[int], float]:
        return lambda length: seconds[name][indices[length]][number]

    return [crossover(timer("dot", one), timer("polynomial", one), lengths) for one in rounds]


def kernel_flops(*, terms: int, key_dim: int, value_dim: int, length: int) -> int:
    """Matmul FLOPs of Taylor attention in its linear form."""
    kernel = TaylorAttention(key_dim=key_dim, num_terms=terms, form="linear")
    return count_attention_ops(
        kernel, length=length, key_dim=key_dim, value_dim=value_dim
    ).matmul_flops


def kernel_and_softmax_flops(*, length: int, key_dim: int, value_dim: int) -> tuple[int, int]:
    """Matmul FLOPs of the degree-2 kernel and of softmax attention."""
    kernel = PolynomialAttention(key_dim=key_dim, form="linear")
    return (
        count_attention_ops(
            kernel, length=length, key_dim=key_dim, value_dim=value_dim
        ).matmul_flops,
        count_attention_ops(
            DotAttention(), length=length, key_dim=key_dim, value_dim=value_dim
        ).matmul_flops,
    )


def polynomial_crossing(*, power: int, key_dim: int) -> int | None:
    """The length from which (q·k + 1)ᵖ needs fewer FLOPs than softmax attention."""
    kernel = PolynomialAttention(key_dim=key_dim, power=power, form="linear")
    return counted_crossing(
        kernel, key_dim=key_dim, lengths=[key_dim**2 * 2**step // 4 for step in range(4)]
    )


def memory_ratios(
    *, length: int, key_dim: int, value_dim: int, with_values: bool
) -> dict[MemoryShape, float]:
    """Peak memory divided by the stated order, for shapes with one size raised in turn."""
    shapes = [
        MemoryShape(length, key_dim, value_dim),
        MemoryShape(4 * length, key_dim, value_dim),
        MemoryShape(length, 16 * key_dim, value_dim),
        MemoryShape(length, key_dim, 16 * value_dim),
    ]

    def order(shape: MemoryShape) -> int:
        n, d, m = shape
        return n * n * m + n * d if with_values else n * n + n * (d + m)

    return {shape: peak_numbers(shape) / order(shape) for shape in shapes}


def weights_figure(terms: int) -> MatrixFigure:
    """Weight of each monomial of two coordinates."""
    degrees = range(terms)
    inverse = [1 / math.factorial(a) for a in degrees]
    return matrix_figure(
        "Squared weight of the feature x₁ᵃx₂ᵇ: 1/(a! b!) for a + b < K",
        ([inverse[a] * inverse[b] if a + b < terms else 0.0 for b in degrees] for a in degrees),
        rows=(f"a = {a}" for a in degrees),
        columns=(f"b = {b}" for b in degrees),
    )


def features_figure(*, key_dim: int, terms: int) -> CurveFigure:
    """Number of features by three formulas."""
    range_of_terms = range(1, max(terms, 5) + 1)
    counts = {
        "Σ Dⁱ": [sum(key_dim**i for i in range(k)) for k in range_of_terms],
        "C(D+K−1, K−1)": [math.comb(key_dim + k - 1, k - 1) for k in range_of_terms],
    }
    return curve_figure(
        f"Number of features for D = {key_dim}",
        ("terms K", "features"),
        *lines(range_of_terms, counts),
        line("Dᴷ⁻¹", range_of_terms, [key_dim ** (k - 1) for k in range_of_terms], dashed=True),
        log="y",
    )


def growth_figure(
    label: str, sizes: Sequence[int], flops: Mapping[str, Sequence[int]]
) -> CurveFigure:
    """FLOPs at doubling sizes."""
    return curve_figure(f"FLOPs by {label}", (label, "FLOPs"), *lines(sizes, flops), log="xy")


def square_figure(*, linear_factor: int) -> CurveFigure:
    """The kernel (q·k + 1)², and the kernel of the features."""
    scores = np.linspace(-3, 3, 61)
    return curve_figure(
        "(q·k + 1)² and the kernel of the features",
        ("q·k", ""),
        line("(q·k + 1)²", scores, (scores + 1) ** 2),
        line("φ(q)·φ(k)", scores, 1 + linear_factor * scores + scores**2, dashed=True),
    )


def seconds_figure(
    seconds: dict[str, list[list[float]]], *, lengths: Sequence[int], square: int
) -> CurveFigure:
    """Seconds per call by length."""
    return curve_figure(
        "Seconds per call: median, minimum and maximum",
        ("length N", "seconds"),
        *(
            line(
                name,
                lengths,
                map(statistics.median, by_length),
                low=map(min, by_length),
                high=map(max, by_length),
            )
            for name, by_length in seconds.items()
        ),
        log="xy",
        marks=((square, "D²"),),
    )


def memory_figure(*, length: int, key_dim: int, value_dim: int) -> CurveFigure:
    """Peak memory by value dimension."""
    value_dims = [value_dim * 2**step for step in range(5)]
    stated = {
        "N² + N(D + M)": [length**2 + length * (key_dim + m) for m in value_dims],
        "N²M": [length**2 * m for m in value_dims],
    }
    peaks = [peak_numbers(MemoryShape(length, key_dim, m)) for m in value_dims]
    return curve_figure(
        f"Peak memory, N = {length}, D = {key_dim}",
        ("value dimension M", "numbers"),
        line("counted", value_dims, peaks),
        *lines(value_dims, stated, dashed=True),
        log="xy",
    )
