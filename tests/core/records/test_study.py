"""Study records round-trip through JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests.factories.studies import dummy_study

from regard.core.errors import RegardError
from regard.core.records.study import ScoreRecord, StudyRecord

RECORD = dummy_study(seeds=2, rates=(1e-3, 2e-3))


def test_json_round_trip() -> None:
    assert StudyRecord.from_json(RECORD.as_json()) == RECORD


def test_empty_fields_round_trip() -> None:
    bare = dataclasses.replace(
        RECORD,
        variants=(),
        runs=(),
        verdicts=(),
        disagreements=(),
        attention_examples=(),
        reproducibility={},
    )
    assert StudyRecord.from_json(bare.as_json()) == bare


def test_runs_of_returns_selected_runs() -> None:
    of_variant = [run for run in RECORD.runs if run.variant == "dot · bahdanau"]
    assert len(of_variant) == 4
    assert [run.seed for run in RECORD.runs_of("dot · bahdanau")] == [0, 1]
    assert {run.learning_rate for run in RECORD.runs_of("dot · bahdanau")} == {1e-3}
    assert RECORD.variant("dot · bahdanau").is_baseline


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({**json.loads(RECORD.as_json()), "variants": [{}]})]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(RegardError, match=r"(?s)not a valid StudyRecord.*`regard report STUDY`"):
        StudyRecord.from_json(text)


def test_nan_score_is_not_written() -> None:
    score = ScoreRecord(mean=float("nan"))
    variant = dataclasses.replace(RECORD.variants[0], scores={"PER": score})
    with pytest.raises(ValueError, match="not JSON compliant"):
        dataclasses.replace(RECORD, variants=(variant,)).as_json()


def test_error_names_the_field() -> None:
    plain = json.loads(RECORD.as_json())
    plain["attention_examples"][0]["alignments"] = {"dot": {"title": "t"}}
    with pytest.raises(
        RegardError, match=r"attention_examples\[0\]\.alignments\.dot\.source_tokens"
    ):
        StudyRecord.from_json(json.dumps(plain))
