"""Pareto charts of a study: the front, points and units."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest
from tests.factories.studies import dummy_study

from regard.core.records.study import ScoreRecord, StudyRecord
from regard.views.charts.pareto import MEASURES, pareto_chart, pareto_front, unit_for

FLOPS = MEASURES[0]


def study_of(*variants: tuple[str, float, float], lower_is_better: bool = True) -> StudyRecord:
    """A study of variants with a name, FLOPs and a score."""
    record = dummy_study(names=[name for name, _, _ in variants])
    return dataclasses.replace(
        record,
        metrics=(dataclasses.replace(record.primary, lower_is_better=lower_is_better),),
        variants=tuple(
            dataclasses.replace(variant, flops=flops, scores={"PER": ScoreRecord(mean=mean)})
            for variant, (_, flops, mean) in zip(record.variants, variants, strict=True)
        ),
    )


@pytest.mark.parametrize(("lower", "expected"), [(True, ["a", "c"]), (False, ["a", "b", "d"])])
def test_front_contains_variants_that_are_not_dominated(lower: bool, expected: list[str]) -> None:
    variants = (("a", 1e9, 5.0), ("b", 2e9, 6.0), ("c", 3e9, 4.0), ("d", 4e9, 7.0))
    record = study_of(*variants, lower_is_better=lower)
    assert [variant.name for variant in pareto_front(record, FLOPS)] == expected


def test_better_variant_of_equal_cost_is_on_the_front() -> None:
    record = study_of(("a", 1e9, 5.0), ("b", 1e9, 4.0))
    assert [variant.name for variant in pareto_front(record, FLOPS)] == ["b"]


def test_equal_variants_do_not_dominate_each_other() -> None:
    record = study_of(("a", 1e9, 5.0), ("b", 1e9, 5.0), ("c", 2e9, 5.0))
    assert [variant.name for variant in pareto_front(record, FLOPS)] == ["a", "b"]


def test_filled_points_are_on_the_front() -> None:
    svg = ElementTree.fromstring(pareto_chart(dummy_study(), MEASURES[2]))
    groups = [group for group in svg.iter("g") if "point" in (group.get("class") or "")]
    full = [
        (group.findtext("title") or "").split(":")[0]
        for group in groups
        if any(circle.get("class") == "on-front" for circle in group.iter("circle"))
    ]
    assert len(groups) == 8
    assert full == [variant.name for variant in pareto_front(dummy_study(), MEASURES[2])]


def test_no_chart_for_one_variant() -> None:
    assert pareto_chart(study_of(("a", 1e9, 5.0)), FLOPS) == ""


def test_units_keep_numbers_small() -> None:
    assert unit_for(MEASURES[1], 100.0) == ("s", 1.0)
    assert unit_for(MEASURES[1], 600.0) == ("minutes", 60.0)
    assert unit_for(FLOPS, 5e12) == ("10¹²", 1e12)
