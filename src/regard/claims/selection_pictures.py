"""The pictures of the claims about selecting and averaging."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.claims.drawn_keys import (
    Draws,
    average_error,
    copy_error,
    distance_from_half,
    head_weights,
    spread,
    two_head_weights,
)
from regard.claims.drawn_lines import line
from regard.claims.three_inputs import drawn_basis, errors, inputs_of, matrices_of
from regard.core.claim_record import Curve, CurvePicture, MatrixPicture

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
