"""Charts of a run: learning curves, confusion matrix, reliability diagram, figure files."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.runs import classifier_run, sequence_run

from regard.core.records.run import CalibrationRecord, ConfusionRecord, ReliabilityBin, RunRecord
from regard.views.charts.run import (
    MAX_RADIUS,
    confusion_chart,
    learning_curve_charts,
    reliability_chart,
    write_run_figures,
)

CONFUSION = ConfusionRecord(
    labels=("good", "<bad>", "none"), counts=((1600, 400, 0), (9, 1, 0), (0, 0, 0))
)
# Overconfident, calibrated, underconfident.
CALIBRATION = CalibrationRecord(
    error=0.0512,
    bins=(
        ReliabilityBin(items=25, confidence=0.5, accuracy=0.25),
        ReliabilityBin(items=1, confidence=0.75, accuracy=0.75),
        ReliabilityBin(items=100, confidence=0.9, accuracy=1.0),
    ),
)


def parsed(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


def strokes(chart: str) -> list[list[tuple[float, float]]]:
    lines = [node for node in parsed(chart).iter("polyline") if node.get("class") == "stroke"]
    return [
        [
            (float(x), float(y))
            for x, y in (pair.split(",") for pair in line.get("points", "").split())
        ]
        for line in lines
    ]


def test_a_chart_for_the_loss_each_metric_the_gradient_norm_and_the_learning_rate() -> None:
    record = sequence_run()
    charts = learning_curve_charts(record)
    others = [metric.name for metric in record.metrics if metric.name != "loss"]
    assert list(charts) == ["loss", *others, "gradient norm", "learning rate"]
    texts = [node.text for node in parsed(charts["per"]).iter("text")]
    assert "per, % on validation, lower is better" in texts
    assert "best checkpoint" in texts


def test_training_and_validation_loss_share_the_axis_of_steps() -> None:
    record = sequence_run()
    training, validation = strokes(learning_curve_charts(record)["loss"])
    known = [point for point in record.training if point.loss is not None]
    assert len(training) == len(known)
    assert len(validation) == len(record.evaluations)
    last = {point.step: x for point, (x, _) in zip(known, training, strict=True)}
    ends = zip(record.evaluations, validation, strict=True)
    assert all(x == pytest.approx(last[one.step], abs=0.2) for one, (x, _) in ends)
    # In an SVG y grows downwards, and the loss falls.
    assert training[0][1] < training[-1][1]


def test_values_that_are_not_finite_are_left_out() -> None:
    record = sequence_run()
    (before, _) = strokes(learning_curve_charts(record)["loss"])
    last = dataclasses.replace(record.training[-1], loss=None)
    record = dataclasses.replace(record, training=(*record.training[:-1], last))
    (after, _) = strokes(learning_curve_charts(record)["loss"])
    assert len(after) == len(before) - 1


def test_a_run_without_steps_has_no_curves() -> None:
    record = dataclasses.replace(sequence_run(), training=(), evaluations=(), best_step=None)
    assert learning_curve_charts(record) == {}


def cells() -> dict[str, tuple[str | None, float]]:
    """Title → class and opacity."""
    return {
        rect.findtext("title", ""): (rect.get("class"), float(rect.get("fill-opacity", "nan")))
        for rect in parsed(confusion_chart(CONFUSION)).iter("rect")
        if rect.find("title") is not None
    }


def test_confusion_cells_have_counts_recall_and_titles() -> None:
    texts = [node.text for node in parsed(confusion_chart(CONFUSION)).iter("text")]
    assert {"1,600", "400", "9", "1"} <= set(texts)
    assert {"good (80 %)", "<bad> (10 %)", "none"} <= set(texts)
    assert "<bad>, predicted as good: 9 of 10 (90 %)" in cells()
    assert "<bad>, correct: 1 of 10 (10 %)" in cells()
    assert "409 errors among 2,010 items" in parsed(confusion_chart(CONFUSION)).get(
        "aria-label", ""
    )


def test_confusion_shades_follow_the_fraction_of_the_row() -> None:
    found = cells()
    order = [
        found["<bad>, predicted as good: 9 of 10 (90 %)"],
        found["good, correct: 1,600 of 2,000 (80 %)"],
        found["good, predicted as <bad>: 400 of 2,000 (20 %)"],
        found["<bad>, correct: 1 of 10 (10 %)"],
    ]
    shades = [shade for _, shade in order]
    assert shades == sorted(shades, reverse=True)
    assert [style for style, _ in order] == ["negative", None, "negative", None]
    assert found["none, correct: 0 of 0 (0 %)"][1] == 0


def dots(record: CalibrationRecord) -> list[ElementTree.Element]:
    """Drawn last to first, so that the first ones are on top."""
    groups = parsed(reliability_chart(record)).iter("g")
    return [node for node in groups if "point" in (node.get("class") or "")][::-1]


def number(node: ElementTree.Element | None, name: str) -> float:
    assert node is not None
    return float(node.get(name, "nan"))


def test_reliability_dots_are_at_confidence_and_accuracy() -> None:
    (diagonal,) = strokes(reliability_chart(CALIBRATION))
    (left, bottom), (right, top) = diagonal
    first, second, third = dots(CALIBRATION)
    circle = first.find("circle")
    assert number(circle, "cx") == pytest.approx((left + right) / 2, abs=0.1)
    assert number(circle, "cy") == pytest.approx(bottom + (top - bottom) / 4, abs=0.1)
    # A line connects the dot with the diagonal.
    line = first.find("line")
    assert number(line, "y2") == pytest.approx((top + bottom) / 2, abs=0.1)
    assert number(second.find("line"), "y1") == number(second.find("line"), "y2")
    assert number(third.find("circle"), "cy") == pytest.approx(top, abs=0.1)
    assert first.findtext("title") == "25 predictions: confidence 50.0 %, accuracy 25.0 %"


def test_reliability_dots_have_the_area_of_their_predictions_and_a_colour() -> None:
    found = dots(CALIBRATION)
    radii = [number(dot.find("circle"), "r") for dot in found]
    assert radii[2] == MAX_RADIUS
    assert radii[0] == pytest.approx(MAX_RADIUS / 2)
    assert 0 < radii[1] < radii[0]
    tones = [re.findall(r"tone-(\w+)", dot.get("class", ""))[0] for dot in found]
    assert tones == ["minus", "plus", "plus"]


def test_calibration_error_is_shown() -> None:
    drawn = parsed(reliability_chart(CALIBRATION))
    assert "expected calibration error 5.1 points" in [node.text for node in drawn.iter("text")]


@pytest.mark.parametrize("suffix", [".svg", ".png"])
@pytest.mark.parametrize("record", [sequence_run(), classifier_run()], ids=lambda run: run.task)
def test_figure_files_are_reproducible(record: RunRecord, suffix: str, tmp_path: Path) -> None:
    first = write_run_figures(record, tmp_path / "first", suffix=suffix)
    second = write_run_figures(record, tmp_path / "second", suffix=suffix)
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    if suffix == ".svg":
        for path in first:
            ElementTree.fromstring(path.read_bytes())
    if record.splits[0].confusion:
        assert f"confusion-test{suffix}" in {path.name for path in first}
