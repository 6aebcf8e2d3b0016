"""Claims about closed-book QA: better, worse and inconclusive studies, and the spec of the small study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.factories.studies import dummy_study

from regard.claims import closed_book_qa as topic
from regard.claims.closed_book_qa import (
    load_record,
    pretraining_helps_closed_book_qa,
    small_sections,
    small_study,
    synthesizer_is_worse_at_closed_book_qa,
)
from regard.core.errors import RegardError
from regard.core.records.claim import CurveFigure, Finding
from regard.studies.folder import StudyFolder
from regard.studies.spec import StudySpec

VARIANTS = (
    "pre-trained · scaled_dot",
    "pre-trained · synthesizer_dense",
    "no pre-training · scaled_dot",
)


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def written(folder: Path, names: Sequence[str], *, seeds: int = 5) -> str:
    """Write the record of a study in which the variants are ranked in this order, best first."""
    record = dummy_study(names=names, seeds=seeds)
    StudyFolder(folder).write_text(folder / "record.json", record.as_json())
    return str(folder)


def test_better_variant_holds(tmp_path: Path) -> None:
    study = written(tmp_path, VARIANTS)
    finding = found(pretraining_helps_closed_book_qa, study=study)
    assert finding.verdict == "holds"
    assert "better" in finding.reason
    assert finding.values["seeds"] == 5
    assert isinstance(finding.figure, CurveFigure)
    assert [len(curve.x) for curve in finding.figure.curves] == [5, 5, 5]
    assert found(synthesizer_is_worse_at_closed_book_qa, study=study).verdict == "holds"


def test_worse_variant_fails(tmp_path: Path) -> None:
    study = written(tmp_path, VARIANTS[::-1])
    finding = found(pretraining_helps_closed_book_qa, study=study)
    assert finding.verdict == "fails"
    assert "worse" in finding.counter_example
    assert found(synthesizer_is_worse_at_closed_book_qa, study=study).verdict == "fails"


def test_too_few_seeds_hold_for_these_models_only(tmp_path: Path) -> None:
    finding = found(pretraining_helps_closed_book_qa, study=written(tmp_path, VARIANTS, seeds=2))
    assert finding.verdict == "holds if"
    assert finding.condition.startswith("only these 2 trained models")
    assert finding.values["of_methods"] == "too few seeds"


def test_error_for_a_study_of_other_variants(tmp_path: Path) -> None:
    study = written(tmp_path, ("dot", "additive"))
    with pytest.raises(RegardError, match="does not compare 'pre-trained · scaled_dot' with"):
        pretraining_helps_closed_book_qa.run(study=study)


def test_error_for_a_folder_without_a_study(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"record\.json"):
        load_record(str(tmp_path), seeds=5, films=10, pretraining_steps=1)


def test_small_study_has_the_compared_variants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[StudySpec] = []

    def run_nothing(study: StudySpec, folder: Path, **_: Any) -> Any:
        started.append(study)
        return dummy_study(names=[variant.name for variant in study.variants])

    monkeypatch.setattr(topic, "run_study", run_nothing)
    small_study.cache_clear()
    finding = found(pretraining_helps_closed_book_qa, seeds=3, films=20, pretraining_steps=7)
    assert (
        found(
            synthesizer_is_worse_at_closed_book_qa, seeds=3, films=20, pretraining_steps=7
        ).verdict
        == "holds"
    )
    small_study.cache_clear()
    assert finding.verdict == "holds"
    assert len(started) == 1  # cached for the second claim
    assert tuple(variant.name for variant in started[0].variants) == VARIANTS


def test_specs_of_the_small_study() -> None:
    study = StudySpec.from_sections(small_sections(seeds=3, films=20, pretraining_steps=7))
    specs = {
        variant.name: study.run_spec(variant, seed=0).as_sections() for variant in study.variants
    }
    assert study.seeds == (0, 1, 2)
    assert specs[VARIANTS[0]]["pretraining"]["training"]["steps"] == 7
    assert specs[VARIANTS[0]]["pretraining"]["task"]["films"] == 20
    assert specs[VARIANTS[1]]["model"]["mechanism"] == "synthesizer_dense"
    assert not specs[VARIANTS[2]].get("pretraining")
    assert all(spec["task"]["test_fraction"] == 0.25 for spec in specs.values())
