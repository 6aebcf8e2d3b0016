"""Matching parameter counts by the sizes that models declare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_pronunciation import write_dictionary

from regard.core.errors import RegardError
from regard.data.preprocessor import Preprocessor
from regard.models import model_class
from regard.runs.build import build_task
from regard.studies.prepare import Matched, count_parameters, match_parameters
from regard.studies.spec import StudySpec

VARIANTS = [
    {"name": "dot", "set": ["model.hidden_dim=48"]},
    {"name": "none", "set": ["model.mechanism=none", "model.hidden_dim=16"]},
    {
        "name": "Transformer",
        "set": ["model.name=transformer", "model.num_layers=1", "model.tie=target"],
    },
    {
        "name": "transformer_recurrent",
        "set": ["model.name=transformer_recurrent", "model.num_layers=1"],
    },
    {
        "name": "transformer_recurrent without",
        "set": [
            "model.name=transformer_recurrent",
            "model.num_layers=1",
            "model.cross_mechanism=none",
        ],
    },
    {"name": "CTC", "set": ["model.name=ctc", "model.num_layers=2"]},
]


def build_study(folder: Path, **sections: Any) -> tuple[StudySpec, Preprocessor]:
    pairs = folder / "words.dict"
    write_dictionary(pairs, count=120)
    return prepared(
        {"recipe": "pronounce-quick", "task": {"train_file": str(pairs)}, "seeds": 1, **sections}
    )


def prepared(sections: dict[str, Any]) -> tuple[StudySpec, Preprocessor]:
    study = StudySpec.from_sections(sections)
    task = build_task(study.run_spec(study.variants[0], seed=0))
    return study, task.dataset.preprocessor


def assert_matched(study: StudySpec, preprocessor: Preprocessor) -> Matched:
    base = study.run_spec(study.variant(study.baseline), seed=0)
    target = count_parameters(base, preprocessor)
    matched, description = match_parameters(study, lambda _: preprocessor)
    for variant in matched.variants:
        found = count_parameters(matched.run_spec(variant, seed=0), preprocessor)
        assert abs(found / target - 1) < 0.02, variant.name
    assert matched.run_spec(matched.variant(study.baseline), seed=0) == base
    assert f"{target:,} parameters of '{study.baseline}'" in description
    return Matched(matched, description)


def test_parameter_counts_are_matched(tmp_path: Path) -> None:
    study, preprocessor = build_study(tmp_path, variants=VARIANTS, match="parameters")
    matched, description = assert_matched(study, preprocessor)
    assert "the largest mismatch is 0." in description
    transformer = matched.run_spec(matched.variant("Transformer"), seed=0).model_options
    assert transformer["model_dim"] % (2 * transformer["num_heads"]) == 0


CLASSIFIERS = ["bilstm", "text_encoder", "structured", "convolutional", "bag_of_words"]


@pytest.mark.parametrize("model", [*CLASSIFIERS[1:], "hierarchical", "recursive_autoencoder"])
def test_every_classifier_is_matched(model: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.tsv"
    rows = [f"{n % 3}\tText {n} is here. It has number {n}." for n in range(60)]
    file.write_text("\n".join(rows) + "\n")
    task = {"name": "classify", "train_file": str(file), "vocabulary_size": 150, "max_length": 32}
    is_split = model == "hierarchical"
    study, preprocessor = prepared(
        {
            "task": {**task, "sentences": is_split, "tokens": "words", "validation_fraction": 0.2},
            "model": {"name": "bilstm", "model_dim": 48, "hidden_dim": 40},
            "training": {"steps": 3},
            "sweep": {"name": ["bilstm", model]},
            "seeds": 1,
            "match": "parameters",
        }
    )
    assert_matched(study, preprocessor)


def test_model_without_sizes_cannot_be_matched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = model_class("transformer")
    study, preprocessor = build_study(tmp_path, variants=VARIANTS)
    monkeypatch.setattr(kind, "traits", replace(kind.traits, sizes={}))
    with pytest.raises(RegardError, match=r"match=parameters: the model 'transformer'.*no sizes"):
        match_parameters(study, lambda _: preprocessor)


def test_unmatchable_variant_is_named(tmp_path: Path) -> None:
    variants = [
        {"name": "tiny", "set": ["model.hidden_dim=2", "model.embedding_dim=2"]},
        {
            "name": "deep",
            "set": ["model.name=transformer", "model.num_layers=6", "model.tie=target"],
        },
    ]
    study, preprocessor = build_study(tmp_path, variants=variants)
    with pytest.raises(RegardError, match="'deep' cannot match"):
        match_parameters(study, lambda _: preprocessor)


def test_swept_width_is_refused(tmp_path: Path) -> None:
    study, preprocessor = build_study(tmp_path, sweep={"hidden_dim": [32, 64]})
    with pytest.raises(RegardError, match="hidden_dim"):
        match_parameters(study, lambda _: preprocessor)


def test_each_variant_is_matched_with_its_own_vocabulary(tmp_path: Path) -> None:
    study, _ = build_study(tmp_path, sweep={"task.source_tokens": ["characters", "words"]})
    specs = [study.run_spec(variant, seed=0) for variant in study.variants]
    own = {spec.task_options: build_task(spec).dataset.preprocessor for spec in specs}
    counts = {count_parameters(spec, own[spec.task_options]) for spec in specs}
    assert len(counts) == 2
    matched, _ = match_parameters(study, lambda spec: own[spec.task_options])
    found = [matched.run_spec(variant, seed=0) for variant in matched.variants]
    first, second = (count_parameters(spec, own[spec.task_options]) for spec in found)
    assert abs(second / first - 1) < 0.02
