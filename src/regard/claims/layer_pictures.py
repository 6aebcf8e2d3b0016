"""The pictures of the claims about the costs of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from regard.claims.drawn_lines import line
from regard.claims.interleaved import MedianInterval
from regard.claims.layer_counts import (
    CELL_NAMES,
    Count,
    attention_products,
    products_of,
    self_attention_products,
)
from regard.core.claim_record import CurvePicture, MatrixPicture
from regard.core.counter import Counter


def products_picture(count: Callable[..., int], layer: str) -> CurvePicture:
    """Products by length, at several widths."""
    lengths = (8, 16, 32, 64)
    return CurvePicture(
        title=f"Products of {layer}",
        x_label="length n",
        y_label="products",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(label=f"d = {d}", x=lengths, y=tuple(float(count(n, d)) for n in lengths))
            for d in (8, 16, 32)
        ),
    )


def heads_picture(heads: Sequence[int], counted: Sequence[Counter]) -> CurvePicture:
    """Products and all operations by the number of heads."""
    whole = [float(counter.operations) for counter in counted]
    products = [float(c.products) for c in counted]
    return CurvePicture(
        title="Self-attention with h heads of width d/h",
        x_label="heads h",
        y_label="operations",
        x_scale="log",
        curves=(
            line(label="products", x=heads, y=products),
            line(label="all operations", x=heads, y=whole),
        ),
    )


def against_recurrent_picture(*, d: int) -> CurvePicture:
    """Products of self-attention and of recurrent layers by length."""
    lengths = tuple(range(d // 4, 3 * d + 1, d // 4)) if d >= 4 else tuple(range(1, 3 * d + 1))
    kinds: dict[str, Count] = {
        "self-attention": self_attention_products,
        "its n²d alone": attention_products,
        **{cell: products_of(cell) for cell in CELL_NAMES},
    }
    return CurvePicture(
        title=f"Products at width d = {d}",
        x_label="length n",
        y_label="products",
        curves=tuple(
            # Recurrent layers are straight lines: two points draw them.
            line(label=kind, x=ends, y=tuple(float(count(n, d)) for n in ends))
            for kind, count in kinds.items()
            for ends in ((lengths[0], lengths[-1]) if kind in CELL_NAMES else lengths,)
        ),
        marks=((float(d), "n = d"), (float(2 * d), "n = 2d")),
    )


def time_ratio_picture(
    ratios: Mapping[str, Mapping[int, MedianInterval]], *, d: int
) -> CurvePicture:
    """Times by length, with their intervals."""
    return CurvePicture(
        title="Time of self-attention as a part of a recurrent layer's",
        x_label="length n",
        y_label="part of the time",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(
                label=cell,
                x=found,
                y=tuple(each.median for each in found.values()),
                low=tuple(each.low for each in found.values()),
                high=tuple(each.high for each in found.values()),
            )
            for cell, found in ratios.items()
        ),
        marks=((float(d), "n = d"),),
    )


def two_lines_picture(
    title: str,
    y_label: str,
    lengths: Sequence[int],
    attention: Sequence[int | None],
    recurrent: Sequence[int],
) -> CurvePicture:
    """One number of self-attention and of a recurrent layer, by length."""
    return CurvePicture(
        title=title,
        x_label="length n",
        y_label=y_label,
        curves=(
            line(label="self-attention", x=lengths, y=[layers or 0 for layers in attention]),
            line(label="recurrent", x=lengths, y=recurrent),
        ),
    )


def window_picture(found: Mapping[tuple[int, int], int | None]) -> MatrixPicture:
    """Layers by length and radius; 0 where positions never meet."""
    lengths, radii = sorted({n for n, _ in found}), sorted({r for _, r in found})
    return MatrixPicture(
        title="Layers until all positions have met",
        values=tuple(tuple(float(found[n, r] or 0) for n in lengths) for r in radii),
        row_labels=tuple(f"r = {r}" for r in radii),
        column_labels=tuple(f"n = {n}" for n in lengths),
    )


def growth_picture(
    lengths: Sequence[int],
    counted: Sequence[int],
    mechanism: str,
    *,
    exponential: float | None = None,
) -> CurvePicture:
    """Operations by length, and an exponential beside them if asked for."""
    curves = [line(label=mechanism, x=lengths, y=tuple(float(each) for each in counted))]
    if exponential is not None:
        grown = tuple(float(counted[0]) * exponential**place for place in range(len(lengths)))
        curves.append(line(label="exponential", x=lengths, y=grown, dashed=True))
    return CurvePicture(
        title="Operations by length",
        x_label="length n",
        y_label="operations",
        y_scale="log" if exponential is not None else "linear",
        curves=tuple(curves),
    )
