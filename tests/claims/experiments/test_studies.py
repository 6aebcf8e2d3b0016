"""Claims decided by the record of a study: pairs, verdicts, shipped records."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import PurePosixPath

import pytest
from tests.factories.studies import dummy_study

from regard.claims.experiments.studies import (
    better_models,
    compare_variants,
    find_pair,
    read_record,
    without_pictures,
)
from regard.core.records.study import StudyRecord

VARIANTS = ("first", "second", "third")
SHIPPED = [
    PurePosixPath(path.name).stem for path in files("regard.claims").joinpath("records").iterdir()
]


def test_inconclusive_over_enough_seeds_is_not_better() -> None:
    record = dummy_study(names=VARIANTS)
    methods = find_pair(record, VARIANTS[0], VARIANTS[2], holds_for="method")
    models = find_pair(record, VARIANTS[0], VARIANTS[2], holds_for="models")
    few = replace(methods, verdict="too few seeds")
    by_interval = replace(
        models, verdict="inconclusive"
    )  # PER: lower, and so its interval, is better
    assert better_models(few, by_interval, record)
    assert not better_models(replace(methods, verdict="inconclusive"), by_interval, record)
    assert not better_models(few, replace(by_interval, low=-1.0, high=1.0), record)


def test_inconclusive_variants_fail() -> None:
    record = dummy_study(names=VARIANTS)
    open_pairs = tuple(replace(pair, verdict="inconclusive") for pair in record.verdicts)
    finding = compare_variants(
        replace(record, verdicts=open_pairs), VARIANTS[0], VARIANTS[2], inputs="questions"
    )
    assert finding.verdict == "fails"
    assert finding.counter_example.startswith("Not shown. ")
    assert "inconclusive" in finding.counter_example


def test_swapped_pair() -> None:
    record = dummy_study(names=VARIANTS)
    there = find_pair(record, VARIANTS[0], VARIANTS[1], holds_for="models")
    back = find_pair(record, VARIANTS[1], VARIANTS[0], holds_for="models")
    assert (there.verdict, back.verdict) == ("better", "worse")
    assert back.difference == -there.difference
    assert (back.low, back.high) == (-(there.high or 0), -(there.low or 0))


def test_a_shipped_record_keeps_scores_and_primary_verdicts() -> None:
    record = dummy_study(names=VARIANTS)
    shipped = without_pictures(record, command="regard study scores")
    assert shipped.verdicts_of("method") == record.verdicts_of("method")
    assert {pair.metric for pair in shipped.verdicts} == {record.metric}
    assert [run.scores for run in shipped.runs] == [run.scores for run in record.runs]
    assert not shipped.attention_examples
    assert shipped.reproducibility["command"] == "regard study scores"
    assert StudyRecord.from_json(shipped.as_json()) == shipped


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_records_are_small_finished_and_say_how_they_were_made(name: str) -> None:
    record = read_record("", shipped=name)
    assert record.is_finished
    assert record.reproducibility["command"].startswith(f"regard study {name} ")
    assert "regard" in record.reproducibility["versions"]
    assert without_pictures(record, command=record.reproducibility["command"]) == record
    assert "/" not in record.reproducibility["command"]
