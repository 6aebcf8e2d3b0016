"""Feature maps of kernels in symbols, exactly: √2 stays √2, and an identity is a difference that vanishes.

The maps of `regard.mechanisms.kernels.monomials` are the same in numbers; here nothing is rounded, so what
comes out zero is zero for all q and k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np
import sympy
import torch
from jaxtyping import Float
from torch import Tensor

from regard.claims.engine import interleaved_seconds, last_that_holds
from regard.core.cost import AttentionShape
from regard.core.counter import Counter
from regard.core.mechanism import Mechanism
from regard.costs.predict import crossover
from regard.costs.workloads import attention_workload, drawn
from regard.mechanisms.kernels.linear_attention import KernelMechanism
from regard.mechanisms.kernels.power_series import PolynomialAttention, TaylorAttention
from regard.mechanisms.scores.dot_product import DotAttention

Symbols = Sequence[sympy.Expr]


def vectors(width: int) -> tuple[tuple[sympy.Symbol, ...], tuple[sympy.Symbol, ...]]:
    """A query and a key of unknown numbers."""
    return sympy.symbols(f"q1:{width + 1}"), sympy.symbols(f"k1:{width + 1}")


def dot(left: Symbols, right: Symbols) -> sympy.Expr:
    """The sum of the products.

    >>> dot(*vectors(2))
    k1*q1 + k2*q2
    """
    return sympy.Add(*(one * other for one, other in zip(left, right, strict=True)))


def taylor_features(x: Symbols, *, terms: int) -> list[sympy.Expr]:
    """Every monomial of degree below `terms` once, divided by √(its exponents' factorials).

    >>> taylor_features(sympy.symbols("x y"), terms=3)
    [1, x, y, sqrt(2)*x**2/2, x*y, sqrt(2)*y**2/2]
    """
    return [
        sympy.Mul(*chosen) / sympy.sqrt(sympy.prod(sympy.factorial(chosen.count(s)) for s in x))
        for degree in range(terms)
        for chosen in combinations_with_replacement(x, degree)
    ]


def exponential_series(score: sympy.Expr, *, terms: int) -> sympy.Expr:
    """The first terms of exp(score)."""
    return sympy.Add(*(score**m / sympy.factorial(m) for m in range(terms)))


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
    """Left minus right, multiplied out; 0 exactly if they are the same polynomial."""
    return sympy.expand(left - right)


def at_ones(expression: sympy.Expr) -> float:
    """The value where every unknown is 1.

    >>> q, k = vectors(3)
    >>> at_ones(dot(q, k))
    3.0
    """
    return float(expression.subs(dict.fromkeys(expression.free_symbols, 1)))


def square_gap(*, width: int, linear_factor: int) -> sympy.Expr:
    """φ(q)·φ(k) minus (q·k + 1)², multiplied out."""
    q, k = vectors(width)
    left, right = (square_features(x, linear_factor=linear_factor) for x in (q, k))
    return difference(dot(left, right), (dot(q, k) + 1) ** 2)


# The features that regard's kernels make: how exactly they give the kernel, and how many there are.


def feature_error(mechanism: KernelMechanism, *, width: int, seed: int) -> float:
    """The largest |φ(q)·φ(k) − κ(q, k)| over 1 + |κ|, for random vectors and large ones."""
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 50, width, dtype=torch.float64, generator=generator)
    q, k = torch.cat([q, 10 * q]), torch.cat([k, -10 * q])
    kernel = mechanism.kernel
    exact = kernel.pairwise(q, k)
    given = kernel.query_features(q) @ kernel.key_features(k).mT
    # What can cancel is as large as the lengths of the features, and so is its rounding.
    size = 1 + kernel.norms(q)[:, None] * kernel.norms(k)
    return float(((given - exact).abs() / size).max())


def feature_counts(*, width: int, terms: int) -> dict[str, int]:
    """By formula with every tensor power whole, and symmetric; made by regard; the rank of the kernel."""
    kernel = TaylorAttention(key_dim=width, num_terms=terms, scale=1.0).kernel
    symmetric = math.comb(width + terms - 1, terms - 1)
    points = torch.randn(
        2 * symmetric, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    gram = kernel.pairwise(points, points).numpy()
    lengths = np.sqrt(np.diag(gram))
    return {
        "tensor": sum(width**i for i in range(terms)),
        "symmetric": symmetric,
        "made": int(kernel.key_features(points).shape[-1]),
        "rank": int(np.linalg.matrix_rank(gram / np.outer(lengths, lengths), tol=1e-11)),
    }


# How far Taylor attention is from softmax attention, at worst, when no score exceeds a bound.
#
# A kernel sees a query and a key only through q·k, so that ‖q‖‖k‖ ≤ R says no more than that scores
# lie in [−R, R]. Looked for are the worst of them among those with some keys at an end of that
# range and the others at one of `PLACES` places in it; scores in between may be worse by about a
# thousandth of the error.


# Places in [−R, R] for the other keys.
PLACES = 17
# Beyond it no boundary is looked for.
FARTHEST = 30.0
# Far above what is asked for: weights are computed from scores, so that features are never made.
UNBOUNDED = 10**9


def adversarial_scores(reach: float, *, keys: int) -> Float[Tensor, "patterns keys"]:
    """Every pattern of some keys at an end of [−reach, reach] and the others at one place in it."""
    places = torch.linspace(-reach, reach, PLACES, dtype=torch.float64)
    first = torch.arange(keys) < torch.arange(1, keys)[:, None]
    patterns = [torch.where(first[:, None], end, places[:, None]) for end in (-reach, reach)]
    return torch.cat(patterns).flatten(0, 1)


def worst_error(*, terms: int, reach: float, keys: int) -> float:
    """The largest Σⱼ |weight − softmax weight|: what an output is off with values in [−1, 1]."""
    key = adversarial_scores(reach, keys=keys)[:, None, :, None]
    query = torch.ones(len(key), 1, 1, 1, dtype=torch.float64)
    taylor = TaylorAttention(key_dim=1, num_terms=terms, scale=1.0, max_features=UNBOUNDED)
    apart = taylor.weights(query, key) - DotAttention().weights(query, key)
    return float(apart.abs().sum(dim=-1).max())


def output_error(*, terms: int, norm: float, width: int, keys: int, seed: int) -> float:
    """The largest |output − softmax output| for random vectors with ‖q‖‖k‖ = norm, through features."""
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(1, 1, keys, width, dtype=torch.float64, generator=generator) for _ in range(3)
    )
    query, key = (norm**0.5 * x / x.norm(dim=-1, keepdim=True) for x in (query, key))
    taylor = TaylorAttention(
        key_dim=width, num_terms=terms, scale=1.0, form="linear", max_features=UNBOUNDED
    )
    return float((taylor(query, key, value) - DotAttention()(query, key, value)).abs().max())


def series_at(scores: Float[Tensor, " places"], *, terms: int) -> Float[Tensor, " places"]:
    """The kernel at these scores, before it is divided by its sum."""
    taylor = TaylorAttention(key_dim=1, num_terms=terms, scale=1.0, max_features=UNBOUNDED)
    return taylor.kernel.pairwise(torch.ones(1, 1, dtype=torch.float64), scores[:, None])[0]


def largest_reach(*, terms: int, error: float, keys: int) -> float:
    """The largest ‖q‖‖k‖ tried at which the weights are within the error of softmax; 0 if there is none."""

    def near(reach: float) -> bool:
        return worst_error(terms=terms, reach=reach, keys=keys) <= error

    return last_that_holds(near, low=0.0, high=FARTHEST, halvings=24) or 0.0


def first_negative(terms: int) -> float | None:
    """The score below which the series turns negative; None if it does not."""

    def stays(depth: float) -> bool:
        return bool(series_at(torch.tensor([-depth], dtype=torch.float64), terms=terms)[0] >= 0)

    depths = torch.linspace(0, FARTHEST, 3001, dtype=torch.float64)
    below = (series_at(-depths, terms=terms) < 0).nonzero()
    if not len(below):
        return None
    place = int(below[0])
    found = last_that_holds(stays, low=float(depths[place - 1]), high=float(depths[place]))
    return None if found is None else -found


# What softmax attention and kernel attention take for one head: counted, and measured side by side.


class Counts(NamedTuple):
    """Of one call, without gradients."""

    operations: int
    products: int


class MemoryShape(NamedTuple):
    """N keys and queries of width D with values of width M."""

    length: int
    width: int
    value_width: int

    @property
    def inputs(self) -> int:
        """Numbers in queries, keys and values."""
        return self.length * (2 * self.width + self.value_width)


def counts_of(mechanism: Mechanism, *, length: int, width: int, value_width: int = 0) -> Counts:
    """What one call takes; values are as wide as keys unless told."""
    shape = AttentionShape(
        query_length=length, key_length=length, key_dim=width, value_dim=value_width or width
    )
    tensors = drawn(mechanism, shape, queries=length, keys=length)
    with torch.no_grad(), Counter() as counter:
        mechanism(**tensors)
    return Counts(counter.operations, counter.products)


def numbers_held(shape: MemoryShape) -> int:
    """Numbers that softmax attention with its weights in the open holds at its peak, inputs included."""
    query, key = torch.randn(2, 1, 1, shape.length, shape.width)
    value = torch.randn(1, 1, shape.length, shape.value_width)
    with torch.no_grad(), Counter() as counter:
        DotAttention().weights(query, key) @ value
    return shape.inputs + counter.peak_memory


def counted_crossing(kernel: Mechanism, *, width: int, lengths: Sequence[int]) -> int | None:
    """The length from which the kernel takes fewer operations than softmax attention."""

    def operations(mechanism: Mechanism) -> Callable[[int], float]:
        return lambda length: counts_of(mechanism, length=length, width=width).operations

    return crossover(operations(DotAttention()), operations(kernel), lengths)


def seconds_by_length(
    *, width: int, heads: int, lengths: Sequence[int], rounds: int
) -> dict[str, list[list[float]]]:
    """Mechanism → for every length the seconds of each round, all of them measured in turns."""

    def rival(name: str, length: int) -> str:
        return f"{name} at {length}"

    rivals = {
        rival(name, length): attention_workload(
            name,
            AttentionShape(
                num_heads=heads,
                query_length=length,
                key_length=length,
                key_dim=width,
                value_dim=width,
            ),
            "forward",
            options,
        ).prepare()
        for name, options in (("dot", {}), ("polynomial", {"form": "linear"}))
        for length in lengths
    }
    taken = interleaved_seconds(rivals, rounds=rounds)
    return {
        name: [taken[rival(name, length)] for length in lengths] for name in ("dot", "polynomial")
    }


def measured_crossings(
    seconds: dict[str, list[list[float]]], *, lengths: Sequence[int]
) -> list[int | None]:
    """For every round, the length from which the kernel is quicker; None if it is not."""
    places = {length: place for place, length in enumerate(lengths)}
    rounds = range(len(seconds["dot"][0]))

    def taken(name: str, number: int) -> Callable[[int], float]:
        return lambda length: seconds[name][places[length]][number]

    return [crossover(taken("dot", one), taken("polynomial", one), lengths) for one in rounds]


def kernel_products(*, terms: int, width: int, value_width: int, length: int) -> int:
    """Products of Taylor attention by sums of features."""
    kernel = TaylorAttention(key_dim=width, num_terms=terms, form="linear")
    return counts_of(kernel, length=length, width=width, value_width=value_width).products


def products_of_both(*, length: int, width: int, value_width: int) -> tuple[int, int]:
    """Of the kernel of degree 2, and of softmax attention."""
    kernel = PolynomialAttention(key_dim=width, form="linear")
    return (
        counts_of(kernel, length=length, width=width, value_width=value_width).products,
        counts_of(DotAttention(), length=length, width=width, value_width=value_width).products,
    )


def counted_crossing_of(*, power: int, width: int) -> int | None:
    """From which length on (q·k + 1)ᵖ takes fewer operations than softmax attention."""
    kernel = PolynomialAttention(key_dim=width, power=power, form="linear")
    return counted_crossing(
        kernel, width=width, lengths=[width**2 * 2**step // 4 for step in range(4)]
    )


def memory_shares(
    *, length: int, width: int, value_width: int, with_values: bool
) -> dict[MemoryShape, float]:
    """Numbers held over what is said, for shapes with one size raised in turn."""
    shapes = [
        MemoryShape(length, width, value_width),
        MemoryShape(4 * length, width, value_width),
        MemoryShape(length, 16 * width, value_width),
        MemoryShape(length, width, 16 * value_width),
    ]

    def said(shape: MemoryShape) -> int:
        n, d, m = shape
        return n * n * m + n * d if with_values else n * n + n * (d + m)

    return {shape: numbers_held(shape) / said(shape) for shape in shapes}
