"""Feature maps of kernels in symbols, exactly: √2 stays √2, and an identity is a difference that vanishes.

The maps of `regard.mechanisms.monomials` are the same in numbers; here nothing is rounded, so that what
comes out zero is zero for all q and k.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement

import sympy  # type: ignore[import-untyped]

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
