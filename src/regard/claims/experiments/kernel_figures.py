"""The pictures of the claims about kernels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from regard.claims.engine import line
from regard.claims.experiments.kernels import MemoryShape, numbers_held, series_at
from regard.core.records.claim import Curve, CurvePicture, MatrixPicture


def weights_picture(terms: int) -> MatrixPicture:
    """Which weight each monomial of two coordinates has."""
    degrees = range(terms)
    return MatrixPicture(
        title="squared weight of the feature x₁ᵃx₂ᵇ: 1/(a! b!) while a + b < K",
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


def quadratic_picture(divisor: int) -> CurvePicture:
    """The quadratic term, with and without its half."""
    scores = np.linspace(-2, 2, 41)
    return CurvePicture(
        title="the quadratic term, and what vec(ttᵀ) gives for it",
        x_label="q·k",
        y_label="",
        curves=(
            line(label="(q·k)²/2", x=scores, y=scores**2 / 2),
            line(
                label=f"vec(qqᵀ)·vec(kkᵀ)/{divisor}", x=scores, y=scores**2 / divisor, dashed=True
            ),
        ),
    )


def features_picture(*, width: int, terms: int) -> CurvePicture:
    """How many features there are, by the three formulas."""
    range_of_terms = range(1, max(terms, 5) + 1)
    rows = [
        (sum(width**i for i in range(k)), math.comb(width + k - 1, k - 1), width ** (k - 1))
        for k in range_of_terms
    ]
    labels = ("Σ Dⁱ", "C(D+K−1, K−1)", "Dᴷ⁻¹")
    return CurvePicture(
        title=f"features for D = {width}",
        x_label="terms K",
        y_label="features",
        y_scale="log",
        curves=tuple(
            line(label=label, x=list(range_of_terms), y=column, dashed=label == labels[-1])
            for label, column in zip(labels, zip(*rows, strict=True), strict=True)
        ),
    )


def approach_picture(errors: Sequence[float], *, norm: float) -> CurvePicture:
    """The distance to softmax attention by the number of terms."""
    terms = list(range(1, len(errors) + 1))
    return CurvePicture(
        title=f"distance to softmax attention, ‖q‖‖k‖ = {norm:g}",
        x_label="terms K",
        y_label="largest error of an output",
        y_scale="log",
        curves=(
            line(label="found", x=terms, y=[max(error, 1e-17) for error in errors]),
            line(
                label="‖q‖ᴷ‖k‖ᴷ/K!",
                x=terms,
                y=[max(norm**k / math.factorial(k), 1e-17) for k in terms],
                dashed=True,
            ),
        ),
    )


def reach_picture(reaches: dict[int, float], *, error: float) -> CurvePicture:
    """How large scores may be, by the number of terms."""
    return CurvePicture(
        title=f"how large ‖q‖‖k‖ may be for an error of {error:g}",
        x_label="terms K",
        y_label="‖q‖‖k‖",
        curves=(line(label="found by search", x=list(reaches), y=list(reaches.values())),),
    )


def sign_picture(terms: Sequence[int], *, zeros: dict[int, float]) -> CurvePicture:
    """Some of the series, and where they turn negative."""
    scores = torch.linspace(-4, 1, 101, dtype=torch.float64)
    return CurvePicture(
        title="the series at a score; exp(s) is dashed",
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


def growth_picture(
    label: str, sizes: Sequence[int], taken: Mapping[str, Sequence[int]]
) -> CurvePicture:
    """Counts at sizes that double."""
    return CurvePicture(
        title=f"operations by {label}",
        x_label=label,
        y_label="operations",
        x_scale="log",
        y_scale="log",
        curves=tuple(line(label=name, x=sizes, y=counts) for name, counts in taken.items()),
    )


def square_picture(*, linear_factor: int) -> CurvePicture:
    """The kernel, and what features with this factor give."""
    scores = np.linspace(-3, 3, 61)
    return CurvePicture(
        title="(q·k + 1)², and what the features give",
        x_label="q·k",
        y_label="",
        curves=(
            line(label="(q·k + 1)²", x=scores, y=(scores + 1) ** 2),
            line(
                label="φ(q)·φ(k)", x=scores, y=1 + linear_factor * scores + scores**2, dashed=True
            ),
        ),
    )


def crossing_picture(crossings: dict[int, int | None]) -> CurvePicture:
    """Where counts cross, by width."""
    found = {d: n for d, n in crossings.items() if n is not None}
    return CurvePicture(
        title="where the operations cross",
        x_label="width D",
        y_label="length N",
        x_scale="log",
        y_scale="log",
        curves=(
            line(label="counted", x=list(found), y=list(found.values())),
            line(label="D²", x=list(crossings), y=[d**2 for d in crossings], dashed=True),
            line(label="D²/2", x=list(crossings), y=[d**2 / 2 for d in crossings], dashed=True),
        ),
    )


def seconds_picture(
    seconds: dict[str, list[list[float]]], *, lengths: Sequence[int], square: int
) -> CurvePicture:
    """Times of both by length."""
    return CurvePicture(
        title="seconds of one call: median, and from the quickest to the slowest",
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


def memory_picture(*, length: int, width: int, value_width: int) -> CurvePicture:
    """Numbers held as values get wider."""
    widths = [value_width * 2**step for step in range(5)]
    held = [numbers_held(MemoryShape(length, width, m)) for m in widths]
    return CurvePicture(
        title=f"numbers held, N = {length}, D = {width}",
        x_label="value width M",
        y_label="numbers",
        x_scale="log",
        y_scale="log",
        curves=(
            line(label="counted", x=widths, y=held),
            line(
                label="N² + N(D + M)",
                x=widths,
                y=[length**2 + length * (width + m) for m in widths],
                dashed=True,
            ),
            line(label="N²M", x=widths, y=[length**2 * m for m in widths], dashed=True),
        ),
    )
