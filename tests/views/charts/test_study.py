"""Charts of a study: the Pareto front, learning curves, units of axes."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest
from tests.factories.studies import dummy_study

from regard.core.formatting import axis_unit
from regard.core.records.study import ScoreRecord, StudyRecord
from regard.views.charts.study import AXES, learning_curves, pareto_chart, pareto_front
from regard.views.charts.variants import MEASURES, Variants

FLOPS = MEASURES[0]


def study_of(*variants: tuple[str, float, float], lower_is_better: bool = True) -> Variants:
    """A study of variants with a name, FLOPs and a score."""
    record = dummy_study(names=[name for name, _, _ in variants])
    return Variants(
        dataclasses.replace(
            record,
            metrics=(dataclasses.replace(record.primary, lower_is_better=lower_is_better),),
            variants=tuple(
                dataclasses.replace(variant, flops=flops, scores={"PER": ScoreRecord(mean=mean)})
                for variant, (_, flops, mean) in zip(record.variants, variants, strict=True)
            ),
        )
    )


def parsed(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


@pytest.mark.parametrize(("lower", "expected"), [(True, ["a", "c"]), (False, ["a", "b", "d"])])
def test_front_contains_variants_that_are_not_dominated(lower: bool, expected: list[str]) -> None:
    variants = (("a", 1e9, 5.0), ("b", 2e9, 6.0), ("c", 3e9, 4.0), ("d", 4e9, 7.0))
    found = pareto_front(study_of(*variants, lower_is_better=lower), FLOPS)
    assert [variant.name for variant in found] == expected


def test_better_variant_of_equal_cost_is_on_the_front() -> None:
    variants = study_of(("a", 1e9, 5.0), ("b", 1e9, 4.0))
    assert [variant.name for variant in pareto_front(variants, FLOPS)] == ["b"]


def test_equal_variants_do_not_dominate_each_other() -> None:
    variants = study_of(("a", 1e9, 5.0), ("b", 1e9, 5.0), ("c", 2e9, 5.0))
    assert [variant.name for variant in pareto_front(variants, FLOPS)] == ["a", "b"]


def test_filled_points_are_on_the_front() -> None:
    variants = Variants(dummy_study())
    svg = parsed(pareto_chart(variants, MEASURES[2]))
    groups = [group for group in svg.iter("g") if "point" in (group.get("class") or "")]
    full = [
        (group.findtext("title") or "").split(":")[0]
        for group in groups
        if any(circle.get("class") == "filled" for circle in group.iter("circle"))
    ]
    assert len(groups) == 8
    # Drawn last, on top, the first one last.
    assert full[::-1] == [variant.name for variant in pareto_front(variants, MEASURES[2])]


def test_no_chart_for_one_variant() -> None:
    assert pareto_chart(study_of(("a", 1e9, 5.0)), FLOPS) == ""


def test_axes_say_which_direction_is_better() -> None:
    texts = [
        node.text for node in parsed(pareto_chart(Variants(dummy_study()), FLOPS)).iter("text")
    ]
    assert "PER, %, lower is better" in texts
    assert "best: down and left" in texts


def test_units_keep_numbers_small() -> None:
    assert axis_unit("seconds", 100.0) == ("s", 1.0)
    assert axis_unit("seconds", 600.0) == ("min", 60.0)
    assert axis_unit("flops", 5e12) == ("TFLOPs", 1e12)
    assert axis_unit("bytes", 3e9) == ("GiB", 2.0**30)


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_one_thick_line_per_variant_and_one_thin_line_per_seed(axis: object) -> None:
    chosen = next(each for each in AXES if each is axis)
    svg = parsed(learning_curves(Variants(dummy_study()), chosen))
    kinds = [line.get("class") for line in svg.iter("polyline")]
    assert kinds.count("stroke") == 8
    assert kinds.count("thin") == 40
    placed = {
        text.text: float(text.get("y", "nan"))
        for group in svg.iter("g")
        for text in group.findall("text")
    }
    # Names are in the order of the ends of the curves; in an SVG y grows downwards.
    assert min(placed, key=lambda name: placed[name]) == "location · bahdanau"
    assert max(placed, key=lambda name: placed[name]) == "additive · luong"


def mean_lengths(record: StudyRecord) -> dict[str | None, int]:
    svg = parsed(learning_curves(Variants(record), AXES[0]))
    return {
        line.get("class"): len((line.get("points") or "").split()) for line in svg.iter("polyline")
    }


def test_mean_is_over_common_steps() -> None:
    record = dummy_study(names=["a"], seeds=2)
    first, second = record.runs
    shorter = dataclasses.replace(second, curve=second.curve[:5])
    assert mean_lengths(dataclasses.replace(record, runs=(first, shorter)))["stroke"] == 5
    assert mean_lengths(record)["stroke"] == len(first.curve)
