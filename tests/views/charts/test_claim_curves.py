"""The pictures of claims: where lines and cells lie, what is left out, and files of both kinds."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.claims import LINES, TABLE

from regard.core.errors import RegardError
from regard.core.records.claim import Curve, CurvePicture, MatrixPicture, Picture
from regard.views.charts.claim_curves import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    claim_figure,
    curves_chart,
    has_gaps,
    mark_places,
    matrix_chart,
    shown_runs,
)
from regard.views.charts.claim_plot import draw_claim


def of_points(*points: tuple[float, float], **words: object) -> CurvePicture:
    x, y = zip(*points, strict=True)
    curve = Curve(label="found", x=x, y=y)
    return CurvePicture(title="T", x_label="x", y_label="y", curves=(curve,), **words)  # type: ignore[arg-type]


def places(chart: str) -> list[tuple[float, float]]:
    found = re.search(r'<polyline points="([^"]+)"', chart)
    assert found is not None
    pairs = [pair.split(",") for pair in found[1].split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_a_straight_line_stays_straight_within_the_field() -> None:
    drawn = places(curves_chart(of_points((0.0, 0.0), (5.0, 50.0), (10.0, 100.0))))
    (x0, y0), (x1, y1), (x2, y2) = drawn
    assert LEFT <= x0 < x1 < x2 <= RIGHT
    assert BOTTOM >= y0 > y1 > y2 >= TOP
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)


def test_a_power_is_straight_on_logarithmic_scales() -> None:
    picture = of_points((1.0, 1.0), (10.0, 100.0), (100.0, 1e4), x_scale="log", y_scale="log")
    (x0, y0), (x1, y1), (x2, y2) = places(curves_chart(picture))
    assert (x1, y1) == pytest.approx(((x0 + x2) / 2, (y0 + y2) / 2), abs=0.1)


@pytest.mark.parametrize("odd", [0.0, -1.0, math.nan, math.inf])
def test_what_a_scale_cannot_show_leaves_a_gap_that_is_told(odd: float) -> None:
    points = (1.0, 1.0), (2.0, 2.0), (3.0, odd), (4.0, 4.0), (5.0, 5.0)
    picture = of_points(*points, y_scale="log")
    assert shown_runs(picture, picture.curves[0]) == [list(points[:2]), list(points[3:])]
    assert has_gaps(picture)
    assert "are left out" in claim_figure(picture)
    assert not has_gaps(LINES)


def test_bands_broken_lines_points_and_marks_are_drawn() -> None:
    chart = curves_chart(LINES)
    assert chart.count('class="band"') == 1
    assert chart.count("dashed") == 1
    assert chart.count("<circle") == 1
    assert chart.count('class="mark"') == 1
    assert "from here</text>" in chart


def test_names_of_marks_do_not_cover_one_another() -> None:
    marks = ((1.0, "a rather long name"), (1.1, "another long name"), (9.0, "at the end of all"))
    found = mark_places(of_points((0.0, 0.0), (10.0, 1.0), marks=marks))
    assert [mark.row for mark in found] == [0, 1, 0]
    assert [mark.to_left for mark in found] == [False, False, True]


def test_the_largest_cell_is_the_strongest_and_signs_differ() -> None:
    chart = matrix_chart(TABLE)
    strengths = [float(each) for each in re.findall(r'fill-opacity="([^"]+)"', chart)]
    assert strengths == pytest.approx([0.0, 0.25, 0.5, 0.12], abs=0.01)  # half of √(size / 4)
    assert chart.count('class="negative"') == 1
    assert "a &lt; b → right: 1" in chart
    assert ">−4</text>" in chart


def test_many_cells_have_no_numbers_but_titles() -> None:
    values = tuple(tuple(float(row * column) for column in range(50)) for row in range(60))
    chart = matrix_chart(MatrixPicture(title="T", values=values))
    assert chart.count("<title>") == 3000
    assert "<text" not in chart


def test_nothing_to_draw_is_said() -> None:
    empty = of_points((1.0, 0.0), y_scale="log")
    assert "There is nothing that can be drawn." in claim_figure(empty)
    assert "There is nothing" in claim_figure(MatrixPicture(title="T", values=()))
    with pytest.raises(RegardError, match="The picture 'T' has no point that its scales can show"):
        draw_claim(empty, path=Path("a.svg"))
    with pytest.raises(RegardError, match="The picture 'T' has no cells"):
        draw_claim(MatrixPicture(title="T", values=()), path=Path("a.svg"))


@pytest.mark.parametrize("picture", [LINES, TABLE], ids=["lines", "table"])
def test_every_text_is_escaped(picture: Picture) -> None:
    figure = claim_figure(picture)
    read = ElementTree.fromstring(figure.replace("<wbr>", ""))
    assert picture.title in "".join(read.itertext())
    assert "<cubes>" not in figure
    assert "<table>" not in figure


@pytest.mark.parametrize("picture", [LINES, TABLE], ids=["lines", "table"])
def test_files_hold_the_words_and_are_the_same_each_time(picture: Picture, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.png"):
        draw_claim(picture, path=tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second
    words = "".join(ElementTree.fromstring(first).itertext())
    assert picture.title in words
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_other_kinds_of_files_are_refused() -> None:
    with pytest.raises(RegardError, match=r"End the name in \.svg or \.png"):
        draw_claim(TABLE, path=Path("a.pdf"))
