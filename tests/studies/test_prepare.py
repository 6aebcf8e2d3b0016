"""Variants are made as large as the baseline, and what is left of a mismatch is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_language import write_words

from regard.core.errors import RegardError
from regard.runs.build import build_task
from regard.studies.prepare import count_parameters, matched_parameters
from regard.studies.spec import StudySpec
from regard.tasks.seq2seq.corpus import PairVocabularies

ARMS = [
    {"name": "dot", "set": ["model.hidden_dim=48"]},
    {"name": "none", "set": ["model.mechanism=none", "model.hidden_dim=16"]},
    {
        "name": "Transformer",
        "set": ["model.name=transformer", "model.num_layers=1", "model.tie=target"],
    },
]


def asked(folder: Path, **sections: Any) -> tuple[StudySpec, PairVocabularies]:
    pairs = folder / "words.dict"
    write_words(pairs, count=120)
    study = StudySpec.from_sections(
        {"recipe": "pronounce-quick", "task": {"pairs": str(pairs)}, "seeds": 1, **sections}
    )
    task = build_task(study.spec_of(study.variants[0], seed=0))
    return study, task.corpus.vocabularies


def test_every_variant_has_about_as_many_parameters(tmp_path: Path) -> None:
    study, vocabularies = asked(tmp_path, variants=ARMS, match="parameters")
    wanted = count_parameters(study.spec_of(study.variant("dot"), seed=0), vocabularies)
    matched, told = matched_parameters(study, vocabularies)
    for variant in matched.variants:
        found = count_parameters(matched.spec_of(variant, seed=0), vocabularies)
        assert abs(found / wanted - 1) < 0.02, variant.name
    assert matched.spec_of(matched.variant("dot"), seed=0) == study.spec_of(
        study.variant("dot"), seed=0
    )
    assert f"{wanted:,} parameters of 'dot'" in told
    assert "the largest mismatch is 0." in told


def test_what_cannot_be_matched_is_said(tmp_path: Path) -> None:
    variants = [
        {"name": "tiny", "set": ["model.hidden_dim=2", "model.embedding_dim=2"]},
        {
            "name": "deep",
            "set": ["model.name=transformer", "model.num_layers=6", "model.tie=target"],
        },
    ]
    study, vocabularies = asked(tmp_path, variants=variants)
    with pytest.raises(RegardError, match="'deep' cannot be made as large as 'tiny'"):
        matched_parameters(study, vocabularies)


def test_what_is_compared_is_not_solved_for(tmp_path: Path) -> None:
    study, vocabularies = asked(tmp_path, over={"hidden_dim": [32, 64]})
    with pytest.raises(RegardError, match="the variants are to differ in hidden_dim"):
        matched_parameters(study, vocabularies)
