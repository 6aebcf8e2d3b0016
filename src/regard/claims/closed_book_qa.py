"""Closed-book question answering: the effect of pre-training, and of a mechanism without keys.

Both claims compare variants of one study. The setting `study` is the folder of a finished
`regard study closed_book_qa`; without it, a small version is run: fewer films, a smaller model, three
variants and a larger test split. Scores are exact match in percent on held-out questions.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from regard.claims.engine import claim
from regard.claims.experiments.studies import compare_variants, read_record
from regard.core.records.claim import Finding
from regard.core.records.study import StudyRecord
from regard.runs.spec import merge_sections
from regard.studies.execution.local import LocalExecutor
from regard.studies.spec import StudySpec, read_study
from regard.studies.study import run_study

PRETRAINED, NOT_PRETRAINED = "pre-trained", "no pre-training"
SOFTMAX, SYNTHESIZER = "scaled_dot", "synthesizer_dense"
TEST_FRACTION = 0.25
STUDY = "closed_book_qa"


def variant_name(initialization: str, mechanism: str) -> str:
    """The name of a variant in the shipped study."""
    return f"{initialization} · {mechanism}"


def load_record(study: str, *, seeds: int, films: int, pretraining_steps: int) -> StudyRecord:
    """The record of the study in this folder, or of the small study if no folder is given."""
    if study:
        return read_record(study)
    return small_study(seeds=seeds, films=films, pretraining_steps=pretraining_steps)


@cache
def small_study(*, seeds: int, films: int, pretraining_steps: int) -> StudyRecord:
    """Train the three variants of the small study; about ten minutes on one core."""
    study = StudySpec.from_sections(
        small_sections(seeds=seeds, films=films, pretraining_steps=pretraining_steps)
    )
    with tempfile.TemporaryDirectory() as folder:
        return run_study(study, Path(folder) / STUDY, executor=LocalExecutor())


def small_sections(*, seeds: int, films: int, pretraining_steps: int) -> dict[str, object]:
    """The spec of the small study."""
    shipped = read_study(STUDY)
    variants = [
        {"name": variant_name(PRETRAINED, SOFTMAX), "set": [f"model.mechanism={SOFTMAX}"]},
        {"name": variant_name(PRETRAINED, SYNTHESIZER), "set": [f"model.mechanism={SYNTHESIZER}"]},
        {
            "name": variant_name(NOT_PRETRAINED, SOFTMAX),
            "set": [f"model.mechanism={SOFTMAX}", "pretraining=none"],
        },
    ]
    base = {key: value for key, value in shipped.items() if key != "sweep"}
    return merge_sections(
        {**base, "variants": variants, "seeds": seeds},
        {
            "task": {"films": films, "test_fraction": TEST_FRACTION},
            "model": {"model_dim": 64, "num_layers": 2},
            "pretraining": {
                "task": {"films": films},
                "training": {"steps": pretraining_steps, "evaluate_every": pretraining_steps},
            },
            "training": {"steps": 100, "evaluate_every": 100},
        },
    )


RANGES = {"seeds": (1, 20), "films": (20, 1000), "pretraining_steps": (1, 20_000)}


@claim(
    statement="Pre-training on relevant text improves closed-book question answering.",
    formula="exact match: pre-trained > no pre-training",
    source="Raffel et al. 2020",
    proof="measured",
    trained=True,
    ranges=RANGES,
)
def pretraining_helps_closed_book_qa(
    *,
    study: str = "",
    mechanism: str = SOFTMAX,
    seeds: int = 5,
    films: int = 150,
    pretraining_steps: int = 1200,
) -> Finding:
    """Compare the two variants of the study, paired by seed."""
    record = load_record(study, seeds=seeds, films=films, pretraining_steps=pretraining_steps)
    return compare_variants(
        record,
        variant_name(PRETRAINED, mechanism),
        variant_name(NOT_PRETRAINED, mechanism),
        inputs="questions",
    )


@claim(
    statement="A synthesizer, which has no keys, answers fewer questions than dot-product attention.",
    formula="exact match: scaled dot > dense synthesizer",
    source="Tay et al. 2021",
    proof="measured",
    trained=True,
    ranges=RANGES,
)
def synthesizer_is_worse_at_closed_book_qa(
    *,
    study: str = "",
    mechanism: str = SYNTHESIZER,
    seeds: int = 5,
    films: int = 150,
    pretraining_steps: int = 1200,
) -> Finding:
    """Compare the two variants of the study, paired by seed."""
    record = load_record(study, seeds=seeds, films=films, pretraining_steps=pretraining_steps)
    return compare_variants(
        record,
        variant_name(PRETRAINED, SOFTMAX),
        variant_name(PRETRAINED, mechanism),
        inputs="questions",
    )
