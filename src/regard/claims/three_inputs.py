"""The worked example of self-attention with three inputs made of four orthogonal vectors of length β.

x₁ = u_d + u_b,  x₂ = u_a,  x₃ = u_c + u_b        scores are dot products, unscaled

Q = (u_d u_dᵀ + u_c u_aᵀ)/β²,  K = I,  V = (u_b u_bᵀ − u_c u_cᵀ)/β²
"""

from __future__ import annotations

from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]
import torch
from jaxtyping import Float
from torch import Tensor

from regard.mechanisms.dot import DotAttention

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
