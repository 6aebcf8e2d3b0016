"""Learning curves of a run and of a study."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.factories.studies import dummy_study

from regard.core.errors import RegardError
from regard.views.charts.learning_curves import AXES, curves_chart, draw_learning_curve

SVG = "{http://www.w3.org/2000/svg}"
LOSSES: list[dict[str, Any]] = [
    {"step": 50 * n, "epoch": 0, "tokens": 900 * n, "loss": 4 / n, "learning_rate": 1e-3}
    for n in range(1, 9)
]
SCORES: list[dict[str, Any]] = [
    {"step": 200, "validation": {"wer": 60.5, "per": 21.0}},
    {"step": 400, "validation": {"wer": 30.125, "per": 8.25}},
]
ROWS = sorted([*LOSSES, *SCORES], key=lambda row: row["step"])


def texts(path: Path) -> list[str]:
    tree = ElementTree.fromstring(path.read_bytes())
    return ["".join(node.itertext()).strip() for node in tree.iter(f"{SVG}text")]


def curves(path: Path) -> list[list[tuple[float, float]]]:
    """The points of the lines of each chart."""
    found = []
    for chart in ElementTree.fromstring(path.read_bytes()).iter(f"{SVG}svg"):
        if chart.get("class") == "claim-chart":
            words = [line.get("points", "") for line in chart.iter(f"{SVG}polyline")]
            pairs = [pair.split(",") for pair in " ".join(words).split()]
            found.append([(float(x), float(y)) for x, y in pairs])
    return found


def test_loss_and_metric_are_drawn_against_steps(tmp_path: Path) -> None:
    path = tmp_path / "curve.svg"
    draw_learning_curve(ROWS, metric="wer", path=path)
    assert {"training loss", "validation wer", "step", "last: 30.12", "last: 0.5"} <= set(
        texts(path)
    )
    loss, validation = curves(path)
    assert [len(loss), len(validation)] == [8, 2]
    # Steps share one scale, in an SVG y grows downwards, and both curves fall.
    assert validation[0][0] == pytest.approx(loss[3][0])
    assert validation[1][0] == pytest.approx(loss[7][0])
    assert loss[0][1] < loss[1][1] < loss[7][1]
    assert validation[0][1] < validation[1][1]


def test_selected_metric_is_drawn(tmp_path: Path) -> None:
    draw_learning_curve(ROWS, metric="per", path=tmp_path / "curve.svg")
    found = texts(tmp_path / "curve.svg")
    assert {"validation per", "last: 8.25"} <= set(found)
    assert "validation wer" not in found


def test_panels_without_rows_are_omitted(tmp_path: Path) -> None:
    path = tmp_path / "curve.svg"
    draw_learning_curve(LOSSES[:1], metric="wer", path=path)
    assert "validation wer" not in texts(path)
    draw_learning_curve(SCORES, metric="wer", path=path)
    assert "training loss" not in texts(path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_leave_a_gap(value: float, tmp_path: Path) -> None:
    rows = [*LOSSES[:3], {"step": 200, "loss": value}, *LOSSES[4:]]
    draw_learning_curve(rows, metric="wer", path=tmp_path / "curve.svg")
    (loss,) = curves(tmp_path / "curve.svg")
    assert len(loss) == 7
    draw_learning_curve([{"step": 1, "loss": value}], metric="wer", path=tmp_path / "one.svg")


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_figure_is_reproducible(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    draw_learning_curve(ROWS, metric="wer", path=first)
    draw_learning_curve(ROWS, metric="wer", path=second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "None of the 0 rows has a 'loss'"),
        ([{"step": 3}], "None of the 1 rows has a 'loss'"),
        ([{"loss": 3.0}], "Row 1 has step=None"),
        ([*LOSSES, {"step": 3, "loss": "low"}], "Row 9 has training loss='low'"),
        ([{"step": True, "loss": 3.0}], "Row 1 has step=True"),
        ([{"step": math.nan, "loss": 3.0}], "Row 1 has step=nan"),
        ([{"step": -1, "loss": 3.0}], "Row 1 has step=-1"),
        ([{"step": 1, "validation": 3.0}], "Row 1 has validation=3.0"),
        ([{"step": 1, "validation": {"wer": None}}], "Row 1 has validation wer=None"),
        ([{"step": 1, "validation": {"per": 1.0}}], "Unknown metric 'wer'.*Choose from: per"),
    ],
)
def test_invalid_rows_are_rejected(
    rows: list[dict[str, Any]], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(RegardError, match=complaint):
        draw_learning_curve(rows, metric="wer", path=tmp_path / "curve.svg")
    assert not list(tmp_path.iterdir())


def test_other_file_formats_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"\.svg or \.png"):
        draw_learning_curve(ROWS, metric="wer", path=tmp_path / "curve.gif")


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.key)
def test_one_thick_line_per_variant_and_one_thin_line_per_seed(axis: object) -> None:
    chosen = next(each for each in AXES if each is axis)
    svg = ElementTree.fromstring(curves_chart(dummy_study(), chosen))
    kinds = [line.get("class") for line in svg.iter("polyline")]
    assert kinds.count("stroke") == 8
    assert kinds.count("seed") == 40
    names = [group.findtext("text") for group in svg.iter("g")]
    assert names[0] == "location · bahdanau"
    assert names[-1] == "additive · luong"


def test_mean_is_over_common_steps() -> None:
    record = dummy_study(names=["a"], seeds=2)
    first, second = record.runs
    shorter = dataclasses.replace(second, curve=second.curve[:5])
    svg = ElementTree.fromstring(
        curves_chart(dataclasses.replace(record, runs=(first, shorter)), AXES[0])
    )
    lengths = {
        line.get("class"): len((line.get("points") or "").split()) for line in svg.iter("polyline")
    }
    assert lengths["stroke"] == 5
