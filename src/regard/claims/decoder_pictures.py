"""The pictures of the claims about recurrent decoders."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.claims.drawn_lines import line
from regard.claims.trained_decoders import SIMILARITIES, TrainedDecoder, error_rates
from regard.core.claim_record import CurvePicture
from regard.studies.seed_comparison import SeedComparison


def rates_picture(found: SeedComparison, decoders: Sequence[TrainedDecoder]) -> CurvePicture:
    """The error rate of every training, a row of points a decoder."""
    rates = error_rates(decoders)
    return CurvePicture(
        title="Phone error rate of every run (%)",
        x_label="seed",
        y_label="phone error rate",
        curves=tuple(
            line(
                label=f"{arm.arm} (mean {arm.mean:.1f})",
                x=tuple(rates[arm.arm]),
                y=tuple(rates[arm.arm].values()),
                points_only=True,
            )
            for arm in found.arms
        ),
    )


def similarity_picture(decoders: Sequence[TrainedDecoder]) -> CurvePicture:
    """Three similarities of every decoder."""
    ordered = sorted(decoders, key=lambda each: each.similarities["jaccard"])
    return CurvePicture(
        title="Decoders in the order of their Jaccard similarity",
        x_label="decoder",
        y_label="similarity",
        curves=tuple(
            line(
                label=name,
                x=tuple(range(len(ordered))),
                y=tuple(each.similarities[name] for each in ordered),
            )
            for name in SIMILARITIES
        ),
    )


def cost_picture(lengths: Sequence[int], counted: dict[str, list[int]]) -> CurvePicture:
    """Operations against the length, a line a score."""
    return CurvePicture(
        title="Operations of attention by its score",
        x_label="length n",
        y_label="operations",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(label=score, x=lengths, y=tuple(float(count) for count in counts))
            for score, counts in counted.items()
        ),
    )


def tanh_picture() -> CurvePicture:
    """Both functions between -4 and 4."""
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    curves = {"tanh": torch.tanh(x), "logistic": torch.sigmoid(x)}
    return CurvePicture(
        title="tanh and the logistic function",
        x_label="x",
        y_label="value",
        curves=tuple(line(label=name, x=x.tolist(), y=y.tolist()) for name, y in curves.items()),
    )
