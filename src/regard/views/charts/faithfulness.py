"""Faithfulness curves of a method: the score as inputs are removed, or kept, by rank and at random."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from regard.core.formatting import number_text, percent_text
from regard.core.records.look import FaithfulnessCurves
from regard.views.charts.axes import Scale, fit_scale
from regard.views.charts.plot import Axis, Line, Plot, plot_chart


def deletion_curves(record: FaithfulnessCurves) -> Markup:
    """The score after removing the highest ranked, or random, fractions: lower than random is faithful."""
    return _chart(record, "removed", record.deletion, record.random_deletion)


def sufficiency_curves(record: FaithfulnessCurves) -> Markup:
    """The score with only the highest ranked, or random, fractions: higher than random is faithful."""
    return _chart(record, "kept", record.sufficiency, record.random_sufficiency)


def _chart(
    record: FaithfulnessCurves, what: str, ranked: Sequence[float], random: Sequence[float]
) -> Markup:
    orders: list[tuple[str, Sequence[float], int | str]] = [
        ("by rank", ranked, 0),
        ("at random", random, "soft"),
    ]
    lines = [
        Line(
            name,
            list(zip(record.fractions, scores, strict=True)),
            tone=tone,
            dash=dash,
            titles=[
                f"{percent_text(at)} {what}, {name}: {number_text(score)}"
                for at, score in zip(record.fractions, scores, strict=True)
            ],
        )
        for dash, (name, scores, tone) in enumerate(orders)
    ]
    plot = Plot(
        f"Score by the fraction of the input that is {what}, ranked by {record.method} and at random.",
        Axis(
            f"fraction {what}",
            Scale(0.0, max(record.fractions), 0.0, 1.0),
            [(at, percent_text(at)) for at in record.fractions],
        ),
        Axis(record.score, fit_scale([*ranked, *random], start=0.0, end=1.0, padding=0.06)),
        lines,
        width=430.0,
        height=220.0,
    )
    return plot_chart(plot)
