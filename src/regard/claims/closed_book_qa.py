"""Closed-book question answering: the effect of pre-training, and of a mechanism without keys.

Both claims compare variants of one study. The setting `study` is the folder of a finished
`regard study closed_book_qa`; without it, a small version is run: fewer films, a smaller model, three
variants and a larger test split. Scores are exact match in percent on held-out questions.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from regard.claims.engine import claim, curve_figure, line
from regard.core.errors import RegardError
from regard.core.records.claim import Finding, Value, Verdict
from regard.core.records.study import PairVerdict, StudyRecord
from regard.runs.spec import merge_sections
from regard.studies.execution.local import LocalExecutor
from regard.studies.folder import StudyFolder
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
    if not study:
        return small_study(seeds=seeds, films=films, pretraining_steps=pretraining_steps)
    folder = StudyFolder(Path(study))
    folder.read(folder.record)  # raises an error that names the folder
    return StudyRecord.from_json(folder.read_text(folder.record))


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


def find_pair(
    record: StudyRecord, first: str, second: str, *, holds_for: Literal["method", "models"]
) -> PairVerdict:
    """The comparison of two variants; the difference is first minus second."""
    for pair in record.verdicts_of(holds_for):
        if {pair.first, pair.second} == {first, second}:
            return pair if pair.first == first else _swapped(pair)
    names = ", ".join(f"'{variant.name}'" for variant in record.variants)
    raise RegardError(
        f"The study '{record.name}' does not compare '{first}' with '{second}': its variants are {names}. "
        f"Use the folder of a finished `regard study {STUDY}`."
    )


def _swapped(pair: PairVerdict) -> PairVerdict:
    opposite = {"better": "worse", "worse": "better"}
    return replace(
        pair,
        first=pair.second,
        second=pair.first,
        difference=-pair.difference,
        low=None if pair.high is None else -pair.high,
        high=None if pair.low is None else -pair.low,
        verdict=opposite.get(pair.verdict, pair.verdict),
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
        record, variant_name(PRETRAINED, mechanism), variant_name(NOT_PRETRAINED, mechanism)
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
        record, variant_name(PRETRAINED, SOFTMAX), variant_name(PRETRAINED, mechanism)
    )


def compare_variants(record: StudyRecord, first: str, second: str) -> Finding:
    """Holds if the first variant is better as a method; under a condition if only these models are better.

    An inconclusive comparison fails.
    """
    methods = find_pair(record, first, second, holds_for="method")
    models = find_pair(record, first, second, holds_for="models")
    of_models = (
        models.sentence
        if models.verdict in {"inconclusive", "same scores"}
        else f"these trained models on such questions {_verdict_text(models)}"
    )
    shown = (
        f"Difference {methods.difference:+.1f}: over seeds {_verdict_text(methods)}; {of_models}."
    )
    scores = " and ".join(
        f"{record.variant(variant).mean or 0.0:.1f} %" for variant in (first, second)
    )
    verdict: Verdict = "fails"
    if methods.verdict == "better":
        verdict = "holds"
    elif methods.verdict != "worse" and better_models(methods, models, record):
        verdict = "holds if"
    return Finding(
        verdict=verdict,
        reason=f"'{first}' and '{second}' answer {scores} of {record.items} questions correctly over "
        f"{len(record.seeds)} seeds. {shown}",
        values=_values(methods, models, record),
        figure=curve_figure(
            f"{record.metric} of every run",
            ("seed", record.primary.label),
            *(
                line(
                    variant.name,
                    [run.seed for run in record.runs_of(variant.name)],
                    [run.scores[record.metric] for run in record.runs_of(variant.name)],
                    points_only=True,
                )
                for variant in record.variants
            ),
        ),
        condition=(
            f"only these {len(record.seeds)} trained models of each variant are compared, not the methods"
        ),
        counter_example=f"Not shown. {shown}",
    )


def better_models(methods: PairVerdict, models: PairVerdict, record: StudyRecord) -> bool:
    """Whether these models are better; with too few seeds for a verdict, by their interval alone."""
    if models.verdict == "better" or models.low is None or models.high is None:
        return models.verdict == "better"
    better = models.high < 0 if record.lower_is_better else models.low > 0
    return methods.verdict == "too few seeds" and better


def _verdict_text(pair: PairVerdict) -> str:
    if pair.low is None or pair.high is None:
        return f"'{pair.verdict}'"
    return f"'{pair.verdict}' (95 % interval {pair.low:+.1f} to {pair.high:+.1f})"


def _values(methods: PairVerdict, models: PairVerdict, record: StudyRecord) -> dict[str, Value]:
    values: dict[str, Value] = {
        "difference": methods.difference,
        "seeds": len(record.seeds),
        "items": record.items,
        "of_methods": methods.verdict,
        "of_models": models.verdict,
    }
    if methods.low is not None and methods.high is not None:
        values |= {"low": methods.low, "high": methods.high}
    return values
