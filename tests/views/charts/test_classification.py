"""Confusion matrix and reliability diagram: cells, shades, dots and rejected input."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from regard.core.errors import RegardError
from regard.views.charts.classification import (
    BOTTOM,
    LEFT,
    MAX_RADIUS,
    RIGHT,
    TOP,
    confusion_table,
    reliability_chart,
)

LABELS = ["good", "<bad>", "none"]
COUNTS = [[1600, 400, 0], [9, 1, 0], [0, 0, 0]]


def rows() -> list[ElementTree.Element]:
    drawn = ElementTree.fromstring(f"<div>{confusion_table(labels=LABELS, counts=COUNTS)}</div>")
    return list(drawn.iter("tr"))


def test_cells_have_counts_and_titles() -> None:
    head, *body = rows()
    assert [cell.findtext("span") for cell in head.findall("th")[:-1]] == LABELS
    assert [row.findtext("th") for row in body] == LABELS
    texts = [[cell.text or "" for cell in row.findall("td")] for row in body]
    assert texts == [
        ["1\u202f600", "400", "", "80\u202f%"],
        ["9", "1", "", "10\u202f%"],
        ["", "", "", "–"],
    ]
    titles = [cell.get("title") for cell in body[1].findall("td")]
    assert titles[0] == "<bad>, predicted as good: 9 of 10 (90.0 %)"
    assert titles[1] == "<bad>, correct: 1 of 10 (10.0 %)"


def test_shades_follow_the_fraction_of_the_row() -> None:
    body = rows()[1:]
    styles = [[cell.get("style") or "" for cell in row.findall("td")] for row in body]
    opacities = [
        [int(found[1]) if (found := re.search(r"(\d+)%", style)) else 0 for style in row]
        for row in styles
    ]
    assert opacities[1][0] > opacities[0][0] > opacities[0][1] > opacities[1][1] > 0
    assert opacities[2] == [0, 0, 0, 0]
    assert "--plus" in styles[0][0]
    assert "--minus" in styles[0][1]


@pytest.mark.parametrize("counts", [[[1]], [[1, 2], [3, 4]], [[1, 2, 3]] * 2])
def test_counts_of_another_shape_are_rejected(counts: list[list[int]]) -> None:
    with pytest.raises(RegardError, match="There are 3 labels, but counts"):
        confusion_table(labels=LABELS, counts=counts)


EMPTY = {"low": 0.0, "high": 0.5, "items": 0, "confidence": None, "accuracy": None}
# Overconfident, calibrated, underconfident.
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


def test_dots_are_at_confidence_and_accuracy() -> None:
    first, second, third = dots(reliability_chart(BINS, error=0.05))
    circle = first.find("circle")
    assert number(circle, "cx") == pytest.approx((LEFT + RIGHT) / 2, abs=0.01)
    assert number(circle, "cy") == pytest.approx(BOTTOM + (TOP - BOTTOM) / 4, abs=0.01)
    # A line connects the dot with the diagonal.
    line = first.find("line")
    assert number(line, "y2") == pytest.approx((TOP + BOTTOM) / 2, abs=0.01)
    assert number(second.find("line"), "y1") == number(second.find("line"), "y2")
    assert number(third.find("circle"), "cy") == pytest.approx(TOP, abs=0.01)
    assert first.findtext("title") == "25 predictions: confidence 50.0 %, accuracy 25.0 %"


def test_dot_area_is_the_number_of_predictions() -> None:
    radii = [number(dot.find("circle"), "r") for dot in dots(reliability_chart(BINS, error=0.05))]
    assert radii[2] == MAX_RADIUS
    assert radii[0] == pytest.approx(MAX_RADIUS / 2)
    assert 0 < radii[1] < radii[0]


def test_overconfident_bins_have_another_colour() -> None:
    styles = [
        re.findall(r"--\w+", ElementTree.tostring(dot, "unicode"))[0]
        for dot in dots(reliability_chart(BINS, error=0.05))
    ]
    assert styles == ["--minus", "--plus", "--plus"]


def test_calibration_error_is_shown_with_the_number_of_bins() -> None:
    drawn = ElementTree.fromstring(reliability_chart(BINS, error=0.0512))
    summary = "expected calibration error 5.1 points, 4 equal bins"
    assert summary in [node.text for node in drawn.iter("text")]
    assert summary in drawn.get("aria-label", "")


@pytest.mark.parametrize("bins", [[], [EMPTY]])
def test_empty_bins_are_rejected(bins: list[dict[str, Any]]) -> None:
    with pytest.raises(RegardError, match="bins are empty"):
        reliability_chart(bins, error=0.0)
