"""Claim figures: lines, bands, marks, matrices, and figure files."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.claims import LINES, TABLE

from regard.core.errors import RegardError
from regard.core.records.claim import Curve, CurveFigure, Figure, MatrixFigure
from regard.views.charts.axes import Scale
from regard.views.charts.claims import (
    HEIGHT,
    WIDTH,
    claim_charts,
    curves_chart,
    draw_claim,
    has_gaps,
    label_dashes,
    visible,
)
from regard.views.charts.plot import place_marks


def of_points(*points: tuple[float, float], **kwargs: object) -> CurveFigure:
    x, y = zip(*points, strict=True)
    curve = Curve(label="found", x=x, y=y)
    return CurveFigure(title="T", x_label="x", y_label="y", curves=(curve,), **kwargs)  # type: ignore[arg-type]


def vertices(chart: str) -> list[tuple[float, float]]:
    found = re.search(r'<polyline points="([^"]+)"', chart)
    assert found is not None
    pairs = [pair.split(",") for pair in found[1].split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_line_stays_straight_within_the_axes() -> None:
    drawn = vertices(curves_chart(of_points((0.0, 0.0), (5.0, 50.0), (10.0, 100.0))))
    (x0, y0), (x1, y1), (x2, y2) = drawn
    assert 0 < x0 < x1 < x2 < WIDTH
    assert HEIGHT + 40 > y0 > y1 > y2 > 20
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)


def test_power_law_is_straight_on_log_scales() -> None:
    figure = of_points((1.0, 1.0), (10.0, 100.0), (100.0, 1e4), x_scale="log", y_scale="log")
    (x0, y0), (x1, y1), (x2, y2) = vertices(curves_chart(figure))
    assert (x1, y1) == pytest.approx(((x0 + x2) / 2, (y0 + y2) / 2), abs=0.1)


@pytest.mark.parametrize("odd", [0.0, -1.0, math.nan, math.inf])
def test_values_outside_the_scale_leave_a_gap(odd: float) -> None:
    points = (1.0, 1.0), (2.0, 2.0), (3.0, odd), (4.0, 4.0), (5.0, 5.0)
    figure = of_points(*points, y_scale="log")
    assert visible(figure, figure.curves[0]) == [list(points[:2]), list(points[3:])]
    assert curves_chart(figure).count('class="hit-area"') == 2
    assert has_gaps(figure)
    assert not has_gaps(LINES)
    assert not has_gaps(TABLE)


def test_bands_dashed_lines_points_and_marks_are_drawn() -> None:
    chart = curves_chart(LINES)
    assert chart.count('class="band"') == 1
    assert chart.count("tone-1 dash-1") == 2  # the line, and its sample in the legend
    assert chart.count("<circle") == 2
    assert chart.count('class="mark"') == 1
    assert "from here</text>" in chart


def test_mark_labels_do_not_overlap() -> None:
    marks = ((1.0, "a rather long name"), (1.1, "another long name"), (9.0, "at the end of all"))
    found = place_marks(marks, Scale(0.0, 10.0, 60.0, 500.0))
    assert [mark.row for mark in found] == [0, 1, 0]
    assert [mark.to_left for mark in found] == [False, False, True]


def labelled(*labels: str, dashed: tuple[str, ...] = ()) -> CurveFigure:
    curves = (Curve(label=label, x=(1.0,), y=(1.0,), dashed=label in dashed) for label in labels)
    return CurveFigure(title="T", x_label="x", y_label="y", curves=tuple(curves))


def test_labels_differ_by_dashes_too() -> None:
    found = label_dashes(labelled("a", "b", "a", "c", "d", "e"))
    assert found == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 0}
    # Dashed curves stay apart from the others.
    found = label_dashes(labelled("a", "b", "c", "d", dashed=("b", "d")))
    assert found == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_legend_lists_each_label_once_in_order() -> None:
    chart = ElementTree.fromstring(curves_chart(labelled("first", "second", "first")))
    legend = [group for group in chart.iter("g") if group.find("title") is None]
    assert [group.findtext("text") for group in legend] == ["first", "second"]


def test_cell_opacity_follows_the_value_and_signs_differ() -> None:
    chart, ramp = claim_charts(TABLE)
    assert "colour scale from −4 to 4" in ramp
    opacities = [float(each) for each in re.findall(r'fill-opacity="([^"]+)"', chart)]
    assert opacities == pytest.approx([0.0, 0.25, 0.5, 0.12], abs=0.01)  # half of √(size / 4)
    assert chart.count('class="negative"') == 1
    assert "a &lt; b → right: 1" in chart
    assert ">−4</text>" in chart


def test_many_cells_have_titles_only() -> None:
    values = tuple(tuple(float(row * column) for column in range(50)) for row in range(60))
    chart, _ = claim_charts(MatrixFigure(title="T", values=values))
    drawn = [value for row in values for value in row if value >= 0.004 * 49 * 59]
    assert chart.count("<title>") == len(drawn) > 2500  # cells near 0 are background
    assert "<text" not in chart


def test_empty_figures_are_reported() -> None:
    empty = of_points((1.0, 0.0), y_scale="log")
    assert claim_charts(empty) == []
    assert claim_charts(MatrixFigure(title="T", values=())) == []
    with pytest.raises(RegardError, match="figure 'T' has no point"):
        draw_claim(empty, path=Path("a.svg"))
    with pytest.raises(RegardError, match="figure 'T' has no cells"):
        draw_claim(MatrixFigure(title="T", values=()), path=Path("a.svg"))


@pytest.mark.parametrize("figure", [LINES, TABLE], ids=["lines", "table"])
def test_every_text_is_escaped(figure: Figure) -> None:
    chart = claim_charts(figure)[0]
    assert figure.title in ElementTree.fromstring(chart).get("aria-label", "")
    assert "<cubes>" not in chart
    assert "<table>" not in chart


@pytest.mark.parametrize("figure", [LINES, TABLE], ids=["lines", "table"])
def test_figure_files_are_complete_and_reproducible(figure: Figure, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.png"):
        draw_claim(figure, path=tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second
    words = "".join(ElementTree.fromstring(first).itertext())
    assert figure.title in words
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_other_file_formats_are_rejected() -> None:
    with pytest.raises(RegardError, match=r"\.svg or \.png"):
        draw_claim(TABLE, path=Path("a.pdf"))
