"""The pictures of the claims about weights and penalties."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.claims.drawn_lines import line
from regard.claims.penalty_forms import KL_FORMS, operations_share, two_hop_kl
from regard.core.claim_record import CurvePicture, MatrixPicture
from regard.layers.penalties import frobenius_penalty

THIRD = 1 / 3


def weights_picture(title: str, values: Float[Tensor, "hops length"]) -> MatrixPicture:
    """A row for every hop."""
    return MatrixPicture(
        title=title,
        values=tuple(tuple(row) for row in values.tolist()),
        row_labels=tuple(f"hop {hop}" for hop in range(len(values))),
    )


def overlaps_picture(rows: Int[np.ndarray, "rows places"], *, parts: int) -> MatrixPicture:
    """Overlaps of some of the distributions, evenly chosen."""
    chosen = rows[:: max(1, len(rows) // 10)]
    names = tuple("·".join(str(part) for part in row) for row in chosen)
    overlaps = (chosen @ chosen.T) / parts**2
    return MatrixPicture(
        title=f"Overlaps of distributions, in parts of 1/{parts}",
        values=tuple(tuple(row) for row in overlaps.tolist()),
        row_labels=names,
        column_labels=names,
    )


def parting_picture(
    distances: np.ndarray, kl: np.ndarray, frobenius: np.ndarray, *, hops: int
) -> CurvePicture:
    """Both penalties as hops are moved apart."""
    return CurvePicture(
        title=f"{hops} hops moved apart",
        x_label="distance of scores",
        y_label="penalty",
        curves=(
            line(label="pairwise KL", x=distances, y=kl),
            line(label="‖AAᵀ − I‖²", x=distances, y=frobenius),
        ),
    )


def self_overlap_picture(*, places: int) -> CurvePicture:
    """‖a‖² from even weights to a one-hot: one place has the share p, the others what is left."""
    shares = [1 / places + (1 - 1 / places) * step / 40 for step in range(41)]
    others = max(1, places - 1)
    squares = [share**2 + (1 - share) ** 2 / others for share in shares]
    return CurvePicture(
        title=f"Overlap of two equal hops over {places} places",
        x_label="weight of the first place",
        y_label="a·a",
        curves=(
            line(label="‖a‖²", x=shares, y=squares),
            line(label="1", x=(shares[0], shares[-1]), y=(1.0, 1.0), dashed=True),
        ),
    )


def shares_picture(*, hops: int) -> CurvePicture:
    """The shares by length."""
    lengths = (8, 16, 32, 64, 128)
    curves = [
        line(
            label=form,
            x=lengths,
            y=tuple(operations_share(kl, hops=hops, n=length) for length in lengths),
        )
        for form, kl in KL_FORMS.items()
    ]
    third = line(label="a third", x=(8, 128), y=(THIRD, THIRD), dashed=True)
    return CurvePicture(
        title=f"Operations of the Frobenius penalty as a share of KL's, {hops} hops",
        x_label="length",
        y_label="share",
        x_scale="log",
        curves=(*curves, third),
    )


def times_picture(times: dict[str, list[float]]) -> CurvePicture:
    """Every form's time in every round."""
    return CurvePicture(
        title="Time of every round",
        x_label="round",
        y_label="microseconds",
        y_scale="log",
        curves=tuple(
            line(
                label=name,
                x=tuple(range(1, len(seconds) + 1)),
                y=tuple(1e6 * each for each in seconds),
            )
            for name, seconds in times.items()
        ),
    )


def unbounded_picture() -> CurvePicture:
    """Both penalties of two hops that part."""
    places = tuple(0.25 * 2**step for step in range(12))
    hops = torch.tensor([[[s, 0.0], [0.0, s]] for s in places], dtype=torch.float64).softmax(dim=-1)
    return CurvePicture(
        title="Two hops that part: KL grows without end, the Frobenius penalty stays within bounds",
        x_label="−log ε",
        y_label="penalty",
        x_scale="log",
        curves=(
            line(label="pairwise KL", x=places, y=tuple(two_hop_kl(place) for place in places)),
            line(label="‖AAᵀ − I‖²", x=places, y=tuple(frobenius_penalty(hops).tolist())),
        ),
    )


def overlap_points_picture(overlaps: dict[str, list[float]]) -> CurvePicture:
    """Every training's overlap."""
    return CurvePicture(
        title="Overlap of hops on held-out texts, by seed",
        x_label="seed",
        y_label="mean cosine of two hops",
        curves=tuple(
            line(label=arm, x=tuple(range(len(values))), y=values, points_only=True)
            for arm, values in overlaps.items()
        ),
    )
