"""The picture of a claim as a figure of a page: its title, the drawing, and what its colours stand for."""

from __future__ import annotations

from regard.core.claim_record import CurvePicture, MatrixPicture, Picture
from regard.views.claim_curves import curves_chart, has_gaps, tone
from regard.views.claim_matrix import largest, matrix_chart
from regard.views.claim_words import number_text
from regard.views.markup import Markup, element


def claim_figure(picture: Picture) -> Markup:
    """The figure; where nothing can be drawn it says so."""
    chart = curves_chart(picture) if isinstance(picture, CurvePicture) else matrix_chart(picture)
    if not chart:
        chart = element("p", "There is nothing that can be drawn.", class_="hint")
    below = _legend(picture) if isinstance(picture, CurvePicture) else _scale(picture)
    return element(
        "figure", element("figcaption", picture.title), chart, *below, class_="claim-figure"
    )


def _legend(picture: CurvePicture) -> list[Markup]:
    items = [
        element(
            "li",
            element("span", class_=f"swatch {_kind(number, picture)}", aria_hidden="true"),
            curve.label,
        )
        for number, curve in enumerate(picture.curves)
    ]
    parts = [element("ul", *items, class_="curve-list")]
    if has_gaps(picture):
        gaps = "Values that the scale cannot show, such as 0 on a logarithmic one, are left out."
        parts.append(element("p", gaps, class_="hint"))
    return parts


def _kind(number: int, picture: CurvePicture) -> str:
    curve = picture.curves[number]
    shape = " points" if curve.points_only else " dashed" if curve.dashed else ""
    return f"{tone(number)}{shape}"


def _scale(picture: MatrixPicture) -> list[Markup]:
    limit = largest(picture)
    if not limit:
        return []
    signed = any(value < 0 for row in picture.values for value in row)
    full = number_text(limit)
    return [
        element(
            "p",
            f"−{full}" if signed else "0",
            element("span", class_="ramp signed" if signed else "ramp", aria_hidden="true"),
            full,
            class_="legend",
        )
    ]
