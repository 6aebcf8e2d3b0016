"""The parts that the charts of a study are made of: fronts, scales, curves, places of names."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.factories.studies import made_up_study

from regard.core.records.attention import AlignmentRecord
from regard.core.records.study import StudyRecord
from regard.views.charts.axes import LETTER, LINE, Box, Scale, label_places, scale_around
from regard.views.charts.heatmap import mean_weights
from regard.views.charts.intervals import shared_scale
from regard.views.charts.learning_curves import AXES, curves_chart
from regard.views.charts.pareto import MEASURES, front, front_chart, unit_for
from regard.views.pages.study import write_figures

OPERATIONS = MEASURES[0]


def costing(*variants: tuple[str, float, float], lower_is_better: bool = True) -> StudyRecord:
    """A study of variants with a name, operations and a score."""
    record = made_up_study(names=[name for name, _, _ in variants])
    return dataclasses.replace(
        record,
        lower_is_better=lower_is_better,
        variants=tuple(
            dataclasses.replace(variant, operations=operations, mean=mean, low=None, high=None)
            for variant, (_, operations, mean) in zip(record.variants, variants, strict=True)
        ),
    )


@pytest.mark.parametrize(("lower", "expected"), [(True, ["a", "c"]), (False, ["a", "b", "d"])])
def test_the_front_holds_whom_none_beats_for_as_little(lower: bool, expected: list[str]) -> None:
    record = costing(("a", 1e9, 5.0), ("b", 2e9, 6.0), ("c", 3e9, 4.0), ("d", 4e9, 7.0))
    record = dataclasses.replace(record, lower_is_better=lower)
    assert [variant.name for variant in front(record, OPERATIONS)] == expected


def test_of_two_that_cost_the_same_the_better_is_on_the_front() -> None:
    record = costing(("a", 1e9, 5.0), ("b", 1e9, 4.0))
    assert [variant.name for variant in front(record, OPERATIONS)] == ["b"]


def test_full_points_are_those_of_the_front() -> None:
    svg = ElementTree.fromstring(front_chart(made_up_study(), MEASURES[2]))
    groups = [group for group in svg.iter("g") if "point" in (group.get("class") or "")]
    full = [
        (group.findtext("title") or "").split(":")[0]
        for group in groups
        if any(circle.get("class") == "full" for circle in group.iter("circle"))
    ]
    assert len(groups) == 8
    assert full == [variant.name for variant in front(made_up_study(), MEASURES[2])]


def test_one_variant_makes_no_front_chart() -> None:
    assert front_chart(costing(("a", 1e9, 5.0)), OPERATIONS) == ""


def test_units_are_such_that_numbers_are_small() -> None:
    assert unit_for(MEASURES[1], 100.0) == ("s", 1.0)
    assert unit_for(MEASURES[1], 600.0) == ("minutes", 60.0)
    assert unit_for(OPERATIONS, 5e12) == ("10¹²", 1e12)


@pytest.mark.parametrize(
    ("low", "high", "logarithmic"),
    [
        (0.0, 1.0, False),
        (7.93, 8.61, False),
        (-3.0, 1e4, False),
        (0.02, 900.0, True),
        (5.0, 6.0, True),
    ],
)
def test_ticks_are_few_round_and_within(low: float, high: float, logarithmic: bool) -> None:
    scale = Scale(low, high, 0.0, 100.0, logarithmic)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 10
    assert all(low <= tick <= high for tick in ticks)
    assert all(0 <= scale.place(tick) <= 100 for tick in ticks)
    assert all(float(f"{tick:.2g}") == tick for tick in ticks)


def test_a_scale_of_one_number_has_room_around_it() -> None:
    for only in (0.0, 5.0, -2.0):
        scale = scale_around([only], start=0.0, end=1.0)
        assert scale.low <= only < scale.high
        assert scale.ticks()


def test_a_huge_interval_does_not_hide_the_dots() -> None:
    scale = shared_scale([8.0, 9.0], [(-50.0, 70.0)])
    assert scale is not None
    assert scale.high - scale.low < 3
    assert scale.held(70.0) == scale.high


def test_names_keep_clear_of_points_and_of_one_another() -> None:
    points = [(100.0 + 30 * number, 100.0 + 5 * number) for number in range(8)]
    texts = [f"name {number}" for number in range(8)]
    room = Box(0.0, 0.0, 400.0, 300.0)
    placed = label_places(points, texts, within=room, keen=2)
    assert placed[0] is not None
    assert sum(label is not None for label in placed) >= 4
    boxes = []
    for label, text in zip(placed, texts, strict=True):
        if label is None:
            continue
        width = LETTER * len(text)
        left = {"start": label.x, "end": label.x - width, "middle": label.x - width / 2}
        begin = left[label.anchor]
        boxes.append(Box(begin, label.y - 4 - LINE / 2, begin + width, label.y - 4 + LINE / 2))
    assert not any(first.meets(second) for first, second in combinations(boxes, 2))
    assert not any(box.meets(Box(x - 2, y - 2, x + 2, y + 2)) for box in boxes for x, y in points)


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.key)
def test_curves_have_a_thick_line_a_variant_and_a_thin_one_a_seed(axis: object) -> None:
    chosen = next(each for each in AXES if each is axis)
    svg = ElementTree.fromstring(curves_chart(made_up_study(), chosen))
    kinds = [line.get("class") for line in svg.iter("polyline")]
    assert kinds.count("stroke") == 8
    assert kinds.count("seed") == 40
    names = [group.findtext("text") for group in svg.iter("g")]
    assert names[0] == "location · before"
    assert names[-1] == "additive · after"


def test_seeds_that_stopped_at_different_steps_have_a_mean_where_all_were() -> None:
    record = made_up_study(names=["a"], seeds=2)
    first, second = record.runs
    shorter = dataclasses.replace(second, curve=second.curve[:5])
    svg = ElementTree.fromstring(
        curves_chart(dataclasses.replace(record, runs=(first, shorter)), AXES[0])
    )
    lengths = {
        line.get("class"): len((line.get("points") or "").split()) for line in svg.iter("polyline")
    }
    assert lengths["stroke"] == 5


def test_maps_and_heads_are_drawn_as_their_mean() -> None:
    record = AlignmentRecord(
        source_tokens=("a", "b"),
        output_tokens=("c",),
        maps={"one": (((1.0, 0.0),), ((0.5, 0.5),)), "two": (((0.0, 1.0),),)},
        title="",
    )
    assert mean_weights(record) == [[0.5, 0.5]]


def test_figures_are_whole_files_in_plain_colours(tmp_path: Path) -> None:
    paths = write_figures(made_up_study(), tmp_path / "figures")
    assert {path.name for path in paths} >= {
        *("scores.svg", "front-operations.svg", "front-time.svg", "front-memory.svg"),
        *("front-parameters.svg", "curves.svg"),
    }
    for path in paths:
        text = path.read_text(encoding="utf-8")
        tree = ElementTree.fromstring(text)
        assert tree.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in text
        assert "additive · after" in text
    assert write_figures(made_up_study(), tmp_path / "figures") == paths


def test_a_study_without_scores_has_no_figures(tmp_path: Path) -> None:
    assert write_figures(dataclasses.replace(made_up_study(), variants=(), runs=()), tmp_path) == []
