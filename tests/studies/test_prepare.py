"""Matching parameter counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_pronunciation import write_dictionary

from regard.core.errors import RegardError
from regard.runs.build import build_task
from regard.studies.prepare import count_parameters, match_parameters
from regard.studies.spec import StudySpec
from regard.tasks.seq2seq.corpus import PairVocabularies

VARIANTS = [
    {"name": "dot", "set": ["model.hidden_dim=48"]},
    {"name": "none", "set": ["model.mechanism=none", "model.hidden_dim=16"]},
    {
        "name": "Transformer",
        "set": ["model.name=transformer", "model.num_layers=1", "model.tie=target"],
    },
]


def build_study(folder: Path, **sections: Any) -> tuple[StudySpec, PairVocabularies]:
    pairs = folder / "words.dict"
    write_dictionary(pairs, count=120)
    study = StudySpec.from_sections(
        {"recipe": "pronounce-quick", "task": {"train_file": str(pairs)}, "seeds": 1, **sections}
    )
    task = build_task(study.run_spec(study.variants[0], seed=0))
    return study, task.corpus.vocabularies


def test_parameter_counts_are_matched(tmp_path: Path) -> None:
    study, vocabularies = build_study(tmp_path, variants=VARIANTS, match="parameters")
    target = count_parameters(study.run_spec(study.variant("dot"), seed=0), vocabularies)
    matched, description = match_parameters(study, vocabularies)
    for variant in matched.variants:
        found = count_parameters(matched.run_spec(variant, seed=0), vocabularies)
        assert abs(found / target - 1) < 0.02, variant.name
    assert matched.run_spec(matched.variant("dot"), seed=0) == study.run_spec(
        study.variant("dot"), seed=0
    )
    assert f"{target:,} parameters of 'dot'" in description
    assert "the largest mismatch is 0." in description


def test_unmatchable_variant_is_named(tmp_path: Path) -> None:
    variants = [
        {"name": "tiny", "set": ["model.hidden_dim=2", "model.embedding_dim=2"]},
        {
            "name": "deep",
            "set": ["model.name=transformer", "model.num_layers=6", "model.tie=target"],
        },
    ]
    study, vocabularies = build_study(tmp_path, variants=variants)
    with pytest.raises(RegardError, match="'deep' cannot match"):
        match_parameters(study, vocabularies)


def test_swept_width_is_refused(tmp_path: Path) -> None:
    study, vocabularies = build_study(tmp_path, sweep={"hidden_dim": [32, 64]})
    with pytest.raises(RegardError, match="hidden_dim"):
        match_parameters(study, vocabularies)
