"""Claims read from a study's record: better, worse and open, and the small study that stands in for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.factories.studies import made_up_study

from regard.claims import closed_book_qa as recall_study
from regard.claims.closed_book_qa import (
    better_here,
    better_of,
    compared_pair,
    reading_first_helps_recall,
    recall_record,
    small_sections,
    small_study,
    synthesizer_recalls_less,
)
from regard.core.errors import RegardError
from regard.core.records.claim import CurvePicture, Finding
from regard.studies.spec import StudySpec

ARMS = (
    "reads first · scaled_dot",
    "reads first · synthesizer_dense",
    "no pre-training · scaled_dot",
)


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def written(folder: Path, names: Sequence[str], *, seeds: int = 5) -> str:
    """The folder of a study in which the variants come out in this order, the best first."""
    record = made_up_study(names=names, seeds=seeds)
    (folder / "record.json").write_text(record.as_json(), encoding="utf-8")
    return str(folder)


def test_the_better_variant_of_a_study_decides(tmp_path: Path) -> None:
    study = written(tmp_path, ARMS)
    finding = found(reading_first_helps_recall, study=study)
    assert finding.verdict == "holds"
    assert "better" in finding.because
    assert finding.figures["seeds"] == 5
    assert isinstance(finding.picture, CurvePicture)
    assert [len(curve.x) for curve in finding.picture.curves] == [5, 5, 5]
    assert found(synthesizer_recalls_less, study=study).verdict == "holds"


def test_a_study_the_other_way_round_refutes(tmp_path: Path) -> None:
    study = written(tmp_path, ARMS[::-1])
    finding = found(reading_first_helps_recall, study=study)
    assert finding.verdict == "fails"
    assert "worse" in finding.counter_example
    assert found(synthesizer_recalls_less, study=study).verdict == "fails"


def test_few_seeds_speak_of_these_models_only(tmp_path: Path) -> None:
    finding = found(reading_first_helps_recall, study=written(tmp_path, ARMS, seeds=2))
    assert finding.verdict == "holds if"
    assert finding.boundary.startswith("it is said of these 2 trainings each, not of the methods")
    assert finding.figures["of_methods"] == "these runs only"


def test_open_over_enough_seeds_is_not_taken_for_better() -> None:
    record = made_up_study(names=ARMS)
    methods = compared_pair(record, ARMS[0], ARMS[2], holds_for="method")
    models = compared_pair(record, ARMS[0], ARMS[2], holds_for="models")
    few = replace(methods, verdict="these runs only")
    seeming = replace(
        models, verdict="cannot tell apart"
    )  # PER: lower, and so its interval, is better
    assert better_here(few, seeming, record)
    assert not better_here(replace(methods, verdict="cannot tell apart"), seeming, record)
    assert not better_here(few, replace(seeming, low=-1.0, high=1.0), record)


def test_variants_that_cannot_be_told_apart_show_nothing() -> None:
    record = made_up_study(names=ARMS)
    open_pairs = tuple(replace(pair, verdict="cannot tell apart") for pair in record.verdicts)
    finding = better_of(replace(record, verdicts=open_pairs), ARMS[0], ARMS[2])
    assert finding.verdict == "fails"
    assert finding.counter_example.startswith("It is not shown. ")
    assert "cannot tell apart" in finding.counter_example


def test_a_pair_read_the_other_way_round() -> None:
    record = made_up_study(names=ARMS)
    there = compared_pair(record, ARMS[0], ARMS[1], holds_for="models")
    back = compared_pair(record, ARMS[1], ARMS[0], holds_for="models")
    assert (there.verdict, back.verdict) == ("better", "worse")
    assert back.difference == -there.difference
    assert (back.low, back.high) == (-(there.high or 0), -(there.low or 0))


def test_a_study_of_other_variants_is_refused(tmp_path: Path) -> None:
    study = written(tmp_path, ("dot", "additive"))
    with pytest.raises(RegardError, match="does not compare 'reads first · scaled_dot' with"):
        reading_first_helps_recall.run(study=study)


def test_a_folder_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"is not the folder of a study: it has no record\.json"):
        recall_record(str(tmp_path), seeds=5, films=10, reading_steps=1)


def test_the_small_study_has_the_variants_that_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[StudySpec] = []

    def run_nothing(study: StudySpec, folder: Path, **_: Any) -> Any:
        asked.append(study)
        return made_up_study(names=[variant.name for variant in study.variants])

    monkeypatch.setattr(recall_study, "run_study", run_nothing)
    small_study.cache_clear()
    finding = found(reading_first_helps_recall, seeds=3, films=20, reading_steps=7)
    assert found(synthesizer_recalls_less, seeds=3, films=20, reading_steps=7).verdict == "holds"
    small_study.cache_clear()
    assert finding.verdict == "holds"
    assert len(asked) == 1  # the second claim reads what the first had run
    assert tuple(variant.name for variant in asked[0].variants) == ARMS


def test_what_the_small_study_trains() -> None:
    study = StudySpec.from_sections(small_sections(seeds=3, films=20, reading_steps=7))
    specs = {
        variant.name: study.spec_of(variant, seed=0).as_sections() for variant in study.variants
    }
    assert study.seeds == (0, 1, 2)
    assert specs[ARMS[0]]["pretraining"]["training"]["steps"] == 7
    assert specs[ARMS[0]]["pretraining"]["task"]["films"] == 20
    assert specs[ARMS[1]]["model"]["mechanism"] == "synthesizer_dense"
    assert not specs[ARMS[2]].get("pretraining")
    assert all(spec["task"]["test_share"] == 0.25 for spec in specs.values())
