"""The pictures of the claims about limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.claims.parity_machine import AtLength
from regard.claims.recall_by_state import KERNELS
from regard.claims.string_lessons import curve_with_band
from regard.core.claim_record import Curve, CurvePicture

Scores = Mapping[str, Sequence[Sequence[float]]]  # who → seed by seed → a score for each place


def influence_picture(lengths: Sequence[int], changes: Sequence[Sequence[float]]) -> CurvePicture:
    """The change by length, beside 1/n."""
    first = max(row[0] for row in changes)
    guide = tuple(first * lengths[0] / n for n in lengths)
    return CurvePicture(
        title="How far one symbol of n moves a score",
        x_label="length n",
        y_label="greatest change",
        x_scale="log",
        y_scale="log",
        curves=(
            curve_with_band("Transformers with weights as drawn", lengths, changes),
            Curve(label="1/n", x=tuple(map(float, lengths)), y=guide, dashed=True),
        ),
    )


def margin_picture(runs: Mapping[str, Sequence[AtLength]]) -> CurvePicture:
    """The least difference of the two scores over the strings of each length."""
    return CurvePicture(
        title="How sure the machine for PARITY is",
        x_label="length n",
        y_label="least difference of the two scores",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            Curve(
                label=label,
                x=tuple(float(run.length) for run in some),
                y=tuple(run.margin for run in some),
            )
            for label, some in runs.items()
        ),
    )


def weight_picture(
    lengths: Sequence[int], plain: Sequence[float], scaled: Sequence[float]
) -> CurvePicture:
    """The weight of the place that is meant."""
    x = tuple(map(float, lengths))
    return CurvePicture(
        title="The weight of the place that is meant",
        x_label="length n",
        y_label="weight",
        x_scale="log",
        y_scale="log",
        curves=(
            Curve(label="scores as they are", x=x, y=tuple(plain)),
            Curve(label="scores times log n", x=x, y=tuple(scaled)),
        ),
    )


def recall_picture(
    numbers: Sequence[int], shares: Mapping[str, Sequence[float]], width: int
) -> CurvePicture:
    """The share of pairs given back; upright lines where the features of a kernel are used up."""
    return CurvePicture(
        title=f"Pairs given back by their keys of width {width}",
        x_label="pairs",
        y_label="share given back",
        x_scale="log",
        curves=tuple(
            Curve(label=label, x=tuple(map(float, numbers)), y=tuple(row))
            for label, row in shares.items()
        ),
        marks=tuple(
            (float(kernel.features(width)), f"features of {kernel.label}") for kernel in KERNELS
        ),
    )


def scores_picture(
    title: str, x_label: str, places: Sequence[int], scores: Scores, taught_to: int
) -> CurvePicture:
    """Accuracy of each pupil, mean of seeds between the least and the greatest."""
    return CurvePicture(
        title=title,
        x_label=x_label,
        y_label="share of right answers",
        curves=tuple(curve_with_band(label, places, rows) for label, rows in scores.items()),
        marks=((float(taught_to), "taught to here"),),
    )
