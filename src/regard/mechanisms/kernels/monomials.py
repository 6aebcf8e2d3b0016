"""Polynomial feature maps: monomial features whose dot product is a polynomial of the inputs' dot product.

For coefficients c_0 .. c_P >= 0 the features f satisfy f(x) . f(y) = sum_m c_m (x . y)^m. They are
the monomials of x, each product of coordinates once: the multinomial theorem gives
(x . y)^m = sum_a (m! / a!) x^a y^a over the exponents a of total m, so x^a is weighted with
sqrt(c_m m! / a!). That makes C(D + m - 1, m) features of degree m for width D, where the tensor
power x (x) ... (x) x, the usual choice, has D^m.

The monomials of one degree are those of the degree below times one more coordinate, no smaller
than their largest, so each degree takes one product. The derivative of a monomial in a coordinate is its
exponent times a monomial of the degree below, so the gradient is gathered in the same way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

PAIRS = 2


def num_monomials(width: int, degrees: Iterable[int]) -> int:
    """The number of monomials of these degrees in `width` coordinates."""
    return sum(math.comb(width + degree - 1, degree) if degree else 1 for degree in degrees)


def monomial_ops(width: int, coefficients: Sequence[float]) -> int:
    """The number of multiplications of `monomial_features` for one vector."""
    total = 0
    for degree, coefficient in enumerate(coefficients):
        monomials = num_monomials(width, [degree])
        if degree == PAIRS:
            total += width * (width // 2 + 1)  # see `_pairs`
        elif degree > PAIRS:
            total += monomials
        total += monomials if coefficient > 0 else 0  # the weights
    return total


def monomial_features(
    inputs: Float[Tensor, "*batch length width"], *, coefficients: Sequence[float]
) -> Float[Tensor, "*batch length num_features"]:
    """Features with dot products sum_m coefficients[m] (x . y)^m, lowest degree first.

    Degrees of coefficient zero have no features. The result is a transposed view, contiguous along the
    length: gathering whole rows is much faster than single numbers.
    """
    rows = inputs.reshape(math.prod(inputs.shape[:-2]), *inputs.shape[-2:])
    features: Tensor
    if torch.is_grad_enabled() and rows.requires_grad:
        features = _MonomialFeatures.apply(rows, tuple(coefficients))  # type: ignore[no-untyped-call]
    else:
        features = _features(rows, tuple(coefficients))
    return features.reshape(*inputs.shape[:-1], features.shape[-1])


def monomial_gradient(
    inputs: Float[Tensor, "rows length width"],
    gradient: Float[Tensor, "rows length num_features"],
    *,
    coefficients: Sequence[float],
) -> Float[Tensor, "rows length width"]:
    """The gradient of the inputs of `monomial_features`, from that of the features."""
    columns, by_feature = inputs.mT.contiguous(), gradient.mT
    plans = _plans(inputs.shape[-1], tuple(coefficients), inputs.dtype, inputs.device)
    total = torch.zeros_like(columns)
    length = columns.shape[-1]
    below = torch.ones_like(columns[:, :1])
    for plan in plans[1:]:
        scaled = by_feature[:, plan.start : plan.stop]
        if plan.stop > plan.start and plan.degree == 1:
            total += scaled * plan.to_derivative
        elif plan.stop > plan.start:
            scaled = scaled * plan.to_derivative
            lower = below * plan.from_derivative
            # A few coordinates at a time, so that the gathered rows need little memory.
            step = max(1, 2 * scaled.shape[1] // lower.shape[1])
            for raised, part in zip(
                torch.split(plan.raised, step), torch.split(total, step, 1), strict=True
            ):
                rows = scaled.index_select(1, raised.flatten()).view(
                    len(total), *raised.shape, length
                )
                part.add_(rows.mul_(lower.unsqueeze(1)).sum(2))
        if plan is not plans[-1]:
            below = _raised(below, columns, plan)
    return total.mT


class _MonomialFeatures(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, coefficients: tuple[float, ...]) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.coefficients = coefficients
        return _features(inputs, coefficients)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (inputs,) = ctx.saved_tensors
        return monomial_gradient(inputs, gradients[0], coefficients=ctx.coefficients), None


def _features(inputs: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    columns = inputs.mT.contiguous()
    rows, width, length = columns.shape
    plans = _plans(width, coefficients, inputs.dtype, inputs.device)
    features = columns.new_empty(rows, plans[-1].stop, length)
    monomials = torch.ones_like(columns[:, :1])
    for plan in plans:
        if plan.degree > 0:
            monomials = _raised(monomials, columns, plan)
        if plan.stop > plan.start:
            torch.mul(monomials, plan.weights, out=features[:, plan.start : plan.stop])
    return features.mT


class _Plan(NamedTuple):
    """One degree m: the slice of its features, and index tables between degrees.

    f are the monomials of degree m, p those of degree m - 1, both as exponents; f! is the product of
    the factorials. The derivative of weight_f x^f in coordinate j is weight_f f_j x^p with f = p + e_j.
    Since f_j = f! / p!, it is a product of a factor of f and a factor of p.
    """

    degree: int
    start: int
    stop: int
    parent: Tensor  # for each f, the index of the p it is made from
    largest: Tensor  # for each f, the coordinate that multiplies it, its largest
    raised: Tensor  # (width, number of p): the index of the f that is p times each coordinate
    weights: Tensor  # sqrt(coefficient m! / f!)
    to_derivative: Tensor  # weights f!
    from_derivative: Tensor  # 1 / p!


def _plans(
    width: int, coefficients: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> list[_Plan]:
    # While a model is traced, new tensors are fake and must not be cached.
    is_real = type(torch.empty(0)) is Tensor
    return (_cached_plans if is_real else _make_plans)(width, coefficients, dtype, device)


def _make_plans(
    width: int, coefficients: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> list[_Plan]:
    def factors(numbers: Iterable[float]) -> Tensor:
        return torch.tensor(list(numbers), dtype=dtype, device=device)[:, None]

    plans: list[_Plan] = []
    below: dict[tuple[int, ...], int] = {}
    stop = 0
    for degree, coefficient in enumerate(coefficients):
        monomials = _listed(width, degree)
        numbers = {monomial: number for number, monomial in enumerate(monomials)}
        start, stop = stop, stop + (len(monomials) if coefficient > 0 else 0)
        weights = [
            math.sqrt(coefficient * math.factorial(degree) / _factorial(f)) for f in monomials
        ]
        raised = [[numbers[tuple(sorted((*p, j)))] for p in below] for j in range(width)]
        plan = _Plan(
            degree=degree,
            start=start,
            stop=stop,
            parent=torch.tensor([below[f[:-1]] for f in monomials if f], device=device),
            largest=torch.tensor([f[-1] for f in monomials if f], device=device),
            raised=torch.tensor(raised, device=device),
            weights=factors(weights),
            to_derivative=factors(
                w * _factorial(f) for w, f in zip(weights, monomials, strict=True)
            ),
            from_derivative=factors(1 / _factorial(p) for p in below),
        )
        plans.append(plan)
        below = numbers
    return plans


_cached_plans = lru_cache(maxsize=64)(_make_plans)


def _factorial(monomial: tuple[int, ...]) -> int:
    return math.prod(math.factorial(exponent) for exponent in Counter(monomial).values())


def _listed(width: int, degree: int) -> list[tuple[int, ...]]:
    """The monomials of a degree, as non-decreasing coordinates.

    Pairs are listed by the circular distance of their coordinates, so that all pairs of one distance are
    the product of the coordinates with a shifted copy.
    """
    if degree != PAIRS:
        return list(combinations_with_replacement(range(width), degree))
    pairs = [(i, (i + shift) % width) for shift in range(width // 2 + 1) for i in range(width)]
    return list(dict.fromkeys((min(pair), max(pair)) for pair in pairs))


def _pairs(columns: Tensor, count: int) -> Tensor:
    """The products of pairs of coordinates in the order of `_listed`, without a gather."""
    rows, width, length = columns.shape
    twice = torch.cat([columns, columns], dim=1)
    shifted = twice.as_strided(
        (rows, width // 2 + 1, width, length), (2 * width * length, length, length, 1)
    )
    # For an even width, the last distance has every pair twice.
    return (columns.unsqueeze(1) * shifted).flatten(1, 2)[:, :count]


def _raised(below: Tensor, columns: Tensor, plan: _Plan) -> Tensor:
    if plan.degree == 1:
        return columns
    if plan.degree == PAIRS:
        return _pairs(columns, len(plan.parent))
    return below.index_select(1, plan.parent).mul_(columns.index_select(1, plan.largest))
