"""Figures of the claims about kernel attention."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from regard.claims.engine import line
from regard.claims.experiments.kernels import MemoryShape, peak_numbers, series_at
from regard.core.records.claim import Curve, CurveFigure, MatrixFigure


def weights_figure(terms: int) -> MatrixFigure:
    """Weight of each monomial of two coordinates."""
    degrees = range(terms)
    return MatrixFigure(
        title="Squared weight of the feature x₁ᵃx₂ᵇ: 1/(a! b!) for a + b < K",
        values=tuple(
            tuple(
                1 / (math.factorial(a) * math.factorial(b)) if a + b < terms else 0.0
                for b in degrees
            )
            for a in degrees
        ),
        row_labels=tuple(f"a = {a}" for a in degrees),
        column_labels=tuple(f"b = {b}" for b in degrees),
    )


def quadratic_figure(divisor: int) -> CurveFigure:
    """The quadratic term, and the kernel of vec(ttᵀ)."""
    scores = np.linspace(-2, 2, 41)
    return CurveFigure(
        title="Quadratic term of exp(q·k), and kernel of vec(ttᵀ)",
        x_label="q·k",
        y_label="",
        curves=(
            line(label="(q·k)²/2", x=scores, y=scores**2 / 2),
            line(
                label=f"vec(qqᵀ)·vec(kkᵀ)/{divisor}", x=scores, y=scores**2 / divisor, dashed=True
            ),
        ),
    )


def features_figure(*, key_dim: int, terms: int) -> CurveFigure:
    """Number of features by three formulas."""
    range_of_terms = range(1, max(terms, 5) + 1)
    rows = [
        (sum(key_dim**i for i in range(k)), math.comb(key_dim + k - 1, k - 1), key_dim ** (k - 1))
        for k in range_of_terms
    ]
    labels = ("Σ Dⁱ", "C(D+K−1, K−1)", "Dᴷ⁻¹")
    return CurveFigure(
        title=f"Number of features for D = {key_dim}",
        x_label="terms K",
        y_label="features",
        y_scale="log",
        curves=tuple(
            line(label=label, x=list(range_of_terms), y=column, dashed=label == labels[-1])
            for label, column in zip(labels, zip(*rows, strict=True), strict=True)
        ),
    )


def approach_figure(errors: Sequence[float], *, norm: float) -> CurveFigure:
    """Error against softmax attention by number of terms."""
    terms = list(range(1, len(errors) + 1))
    return CurveFigure(
        title=f"Error of Taylor attention against softmax, ‖q‖‖k‖ = {norm:g}",
        x_label="terms K",
        y_label="largest output error",
        y_scale="log",
        curves=(
            line(label="measured", x=terms, y=[max(error, 1e-17) for error in errors]),
            line(
                label="‖q‖ᴷ‖k‖ᴷ/K!",
                x=terms,
                y=[max(norm**k / math.factorial(k), 1e-17) for k in terms],
                dashed=True,
            ),
        ),
    )


def norm_bound_figure(bounds: dict[int, float], *, error: float) -> CurveFigure:
    """Largest admissible ‖q‖‖k‖ by number of terms."""
    return CurveFigure(
        title=f"Largest ‖q‖‖k‖ with an error of at most {error:g}",
        x_label="terms K",
        y_label="‖q‖‖k‖",
        curves=(line(label="found by search", x=list(bounds), y=list(bounds.values())),),
    )


def sign_figure(terms: Sequence[int], *, zeros: dict[int, float]) -> CurveFigure:
    """Taylor series and their first negative scores."""
    scores = torch.linspace(-4, 1, 101, dtype=torch.float64)
    return CurveFigure(
        title="Taylor series of exp (dashed) by score",
        x_label="score s",
        y_label="kernel",
        curves=(
            *(
                line(
                    label=f"K = {k}",
                    x=scores.tolist(),
                    y=series_at(scores, terms=k).clamp(-3, 3).tolist(),
                )
                for k in terms
                if k <= 5
            ),
            line(label="exp", x=scores.tolist(), y=scores.exp().tolist(), dashed=True),
        ),
        marks=tuple((zero, f"K = {k}") for k, zero in zeros.items() if zero > -4),
    )


def growth_figure(
    label: str, sizes: Sequence[int], flops: Mapping[str, Sequence[int]]
) -> CurveFigure:
    """FLOPs at doubling sizes."""
    return CurveFigure(
        title=f"FLOPs by {label}",
        x_label=label,
        y_label="FLOPs",
        x_scale="log",
        y_scale="log",
        curves=tuple(line(label=name, x=sizes, y=counts) for name, counts in flops.items()),
    )


def square_figure(*, linear_factor: int) -> CurveFigure:
    """The kernel (q·k + 1)², and the kernel of the features."""
    scores = np.linspace(-3, 3, 61)
    return CurveFigure(
        title="(q·k + 1)² and the kernel of the features",
        x_label="q·k",
        y_label="",
        curves=(
            line(label="(q·k + 1)²", x=scores, y=(scores + 1) ** 2),
            line(
                label="φ(q)·φ(k)", x=scores, y=1 + linear_factor * scores + scores**2, dashed=True
            ),
        ),
    )


def crossing_figure(crossings: dict[int, int | None]) -> CurveFigure:
    """Length at which the FLOPs cross, by key dimension."""
    found = {d: n for d, n in crossings.items() if n is not None}
    return CurveFigure(
        title="Length at which the FLOPs cross",
        x_label="key dimension D",
        y_label="length N",
        x_scale="log",
        y_scale="log",
        curves=(
            line(label="counted", x=list(found), y=list(found.values())),
            line(label="D²", x=list(crossings), y=[d**2 for d in crossings], dashed=True),
            line(label="D²/2", x=list(crossings), y=[d**2 / 2 for d in crossings], dashed=True),
        ),
    )


def seconds_figure(
    seconds: dict[str, list[list[float]]], *, lengths: Sequence[int], square: int
) -> CurveFigure:
    """Seconds per call by length."""
    return CurveFigure(
        title="Seconds per call: median, minimum and maximum",
        x_label="length N",
        y_label="seconds",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            Curve(
                label=name,
                x=tuple(map(float, lengths)),
                y=tuple(statistics.median(times) for times in by_length),
                low=tuple(min(times) for times in by_length),
                high=tuple(max(times) for times in by_length),
            )
            for name, by_length in seconds.items()
        ),
        marks=((float(square), "D²"),),
    )


def memory_figure(*, length: int, key_dim: int, value_dim: int) -> CurveFigure:
    """Peak memory by value dimension."""
    value_dims = [value_dim * 2**step for step in range(5)]
    peaks = [peak_numbers(MemoryShape(length, key_dim, m)) for m in value_dims]
    return CurveFigure(
        title=f"Peak memory, N = {length}, D = {key_dim}",
        x_label="value dimension M",
        y_label="numbers",
        x_scale="log",
        y_scale="log",
        curves=(
            line(label="counted", x=value_dims, y=peaks),
            line(
                label="N² + N(D + M)",
                x=value_dims,
                y=[length**2 + length * (key_dim + m) for m in value_dims],
                dashed=True,
            ),
            line(label="N²M", x=value_dims, y=[length**2 * m for m in value_dims], dashed=True),
        ),
    )
