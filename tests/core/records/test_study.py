"""Study records come back from JSON as they were."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests.factories.studies import made_up_study

from regard.core.errors import RegardError
from regard.core.records.study import StudyRecord

RECORD = made_up_study(seeds=2, rates=(1e-3, 2e-3))


def test_json_gives_the_same_record_back() -> None:
    assert StudyRecord.from_json(RECORD.as_json()) == RECORD


def test_what_is_not_there_comes_back_as_not_there() -> None:
    bare = dataclasses.replace(
        RECORD, variants=(), runs=(), verdicts=(), disagreements=(), pictures=(), facts={}
    )
    assert StudyRecord.from_json(bare.as_json()) == bare


def test_only_the_runs_that_count_are_compared() -> None:
    of_variant = [run for run in RECORD.runs if run.variant == "dot · before"]
    assert len(of_variant) == 4
    assert [run.seed for run in RECORD.runs_of("dot · before")] == [0, 1]
    assert {run.learning_rate for run in RECORD.runs_of("dot · before")} == {1e-3}
    assert RECORD.variant("dot · before").is_baseline


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({**json.loads(RECORD.as_json()), "variants": [{}]})]
)
def test_another_text_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(RegardError, match=r"(?s)not the record of a study .*`regard report STUDY`"):
        StudyRecord.from_json(text)


def test_a_score_that_is_no_number_is_not_written() -> None:
    variant = dataclasses.replace(RECORD.variants[0], mean=float("nan"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        dataclasses.replace(RECORD, variants=(variant,)).as_json()
