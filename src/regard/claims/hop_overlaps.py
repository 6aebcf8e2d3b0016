"""Overlaps of hops: of all distributions of a few parts in whole numbers, and of every one in symbols.

A distribution is a row of numbers that are not negative and sum to one, so that 1 may be written as their
sum. What then has no negative term shows a bound for all of them at once.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import sympy  # type: ignore[import-untyped]
from jaxtyping import Int

Hop = tuple[sympy.Symbol, ...]


def distributions(*, places: int, parts: int) -> Int[np.ndarray, "rows places"]:
    """Every way to lay `parts` equal parts on `places` places, as whole numbers.

    >>> distributions(places=2, parts=2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = combinations(range(parts + places - 1), places - 1)
    cuts = np.array([(-1, *chosen, parts + places - 1) for chosen in bars])
    return np.diff(cuts, axis=1) - 1


def overlap_faults(rows: Int[np.ndarray, "rows places"], *, parts: int) -> tuple[int, int]:
    """How many overlaps, in units of 1/parts², leave [0, 1]; how many zeros are not where they belong."""
    overlaps = rows @ rows.T
    share_a_place = (rows > 0).astype(int) @ (rows > 0).T.astype(int) > 0
    outside = (overlaps < 0) | (overlaps > parts**2)
    return int(outside.sum()), int(((overlaps != 0) != share_a_place).sum())


def hop(name: str, *, places: int) -> Hop:
    """Weights of one hop, unknown but not negative."""
    return sympy.symbols(f"{name}1:{places + 1}", nonnegative=True)


def overlap(a: Hop, b: Hop) -> sympy.Expr:
    """a·b."""
    return sympy.Add(*(one * other for one, other in zip(a, b, strict=True)))


def beside_the_overlap(a: Hop, b: Hop) -> sympy.Expr:
    """1 − a·b, the 1 written as (Σa)(Σb), multiplied out.

    >>> beside_the_overlap(hop("a", places=2), hop("b", places=2))
    a1*b2 + a2*b1
    """
    return sympy.expand(sympy.Add(*a) * sympy.Add(*b) - overlap(a, b))


def is_never_negative(expression: sympy.Expr) -> bool:
    """Whether every term is a product of numbers that are not negative; nothing is a sum of none."""
    return all(term.is_nonnegative for term in sympy.Add.make_args(expression))


def sum_of(expression: sympy.Expr) -> str:
    """In words."""
    terms = [term for term in sympy.Add.make_args(expression) if term != 0]
    return f"a sum of {len(terms)} products" if terms else "0"


def has_every_pair(expression: sympy.Expr, a: Hop, b: Hop) -> bool:
    """Whether aⱼbₖ is a term of it for all j ≠ k; with no negative term it is 0 only if they all are."""
    pairs = {a[j] * b[k] for j in range(len(a)) for k in range(len(b)) if j != k}
    return pairs <= set(expression.as_coefficients_dict())


def spread_rest(a: Hop) -> sympy.Expr:
    """n‖a‖² − 1 less Σ_{j<k} (aⱼ − aₖ)², the 1 written as (Σa)²: 0 if ‖a‖² ≥ 1/n because squares are."""
    squares = sympy.Add(*((one - other) ** 2 for one, other in combinations(a, 2)))
    return sympy.expand(len(a) * overlap(a, a) - sympy.Add(*a) ** 2 - squares)
