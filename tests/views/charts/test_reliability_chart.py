"""The reliability diagram: where dots lie, how large they are, and what is refused."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.views.charts.classification import BOTTOM, LARGEST, LEFT, RIGHT, TOP, reliability_chart

EMPTY = {"low": 0.0, "high": 0.5, "items": 0, "confidence": None, "accuracy": None}
# Too sure, exactly right, and not sure enough.
BINS: list[dict[str, Any]] = [
    EMPTY,
    {"low": 0.5, "high": 0.6, "items": 25, "confidence": 0.5, "accuracy": 0.25},
    {"low": 0.6, "high": 0.8, "items": 1, "confidence": 0.75, "accuracy": 0.75},
    {"low": 0.8, "high": 1.0, "items": 100, "confidence": 0.9, "accuracy": 1.0},
]


def dots(svg: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(svg).iter("g") if node.get("class") == "bin"]


def number(node: ElementTree.Element | None, name: str) -> float:
    assert node is not None
    return float(node.get(name, "nan"))


def test_a_dot_lies_at_how_sure_and_how_right_it_is() -> None:
    first, second, third = dots(reliability_chart(BINS, error=0.05))
    circle = first.find("circle")
    assert number(circle, "cx") == pytest.approx((LEFT + RIGHT) / 2, abs=0.01)
    assert number(circle, "cy") == pytest.approx(BOTTOM + (TOP - BOTTOM) / 4, abs=0.01)
    # A line leads to the diagonal, where it should be.
    line = first.find("line")
    assert number(line, "y2") == pytest.approx((TOP + BOTTOM) / 2, abs=0.01)
    assert number(second.find("line"), "y1") == number(second.find("line"), "y2")
    assert number(third.find("circle"), "cy") == pytest.approx(TOP, abs=0.01)
    assert first.findtext("title") == "25 predictions: 50.0 % sure, 25.0 % right"


def test_the_area_of_a_dot_follows_how_many_it_stands_for() -> None:
    radii = [number(dot.find("circle"), "r") for dot in dots(reliability_chart(BINS, error=0.05))]
    assert radii[2] == LARGEST
    assert radii[0] == pytest.approx(LARGEST / 2)
    assert 0 < radii[1] < radii[0]


def test_colours_tell_too_sure_from_not_sure_enough() -> None:
    styles = [
        re.findall(r"--\w+", ElementTree.tostring(dot, "unicode"))[0]
        for dot in dots(reliability_chart(BINS, error=0.05))
    ]
    assert styles == ["--minus", "--plus", "--plus"]


def test_the_error_is_told_with_its_bins() -> None:
    drawn = ElementTree.fromstring(reliability_chart(BINS, error=0.0512))
    said = "expected calibration error 5.1 points, 4 equal bins"
    assert said in [node.text for node in drawn.iter("text")]
    assert said in drawn.get("aria-label", "")


@pytest.mark.parametrize("bins", [[], [EMPTY]])
def test_nothing_to_draw_is_refused(bins: list[dict[str, Any]]) -> None:
    with pytest.raises(RegardError, match="bins holds a prediction"):
        reliability_chart(bins, error=0.0)
