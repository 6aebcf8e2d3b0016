"""Claims decided by the record of a study: read, compare two variants, ship a small record.

The setting `study` of such a claim is the folder of a finished study. A record that comes with the package
was made by the command in its `reproducibility`; `without_pictures` keeps what claims read.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Literal

from regard.claims.engine import curve_figure, line
from regard.core.errors import RegardError
from regard.core.records.claim import CurveFigure, Finding, Value, Verdict
from regard.core.records.study import PairVerdict, StudyRecord
from regard.studies.folder import StudyFolder


def read_record(study: str, *, shipped: str = "") -> StudyRecord:
    """The record of the study in this folder; of the shipped study of this name if no folder is given."""
    if not study:
        text = files("regard.claims").joinpath(f"records/{shipped}.json").read_text("utf-8")
        return StudyRecord.from_json(text)
    folder = StudyFolder(Path(study))
    folder.read(folder.record)  # raises an error that names the folder
    return StudyRecord.from_json(folder.read_text(folder.record))


def without_pictures(record: StudyRecord, *, command: str) -> StudyRecord:
    """What claims read: scores and the verdicts of the primary metric; `command` has no local paths."""
    versions = {
        label: text
        for label, text in record.reproducibility.items()
        if label in {"versions", "seeds"}
    }
    return replace(
        record,
        runs=tuple(replace(run, curve=(), folder="") for run in record.runs),
        verdicts=tuple(one for one in record.verdicts if one.metric == record.metric),
        disagreements=(),
        attention_examples=(),
        reproducibility={"command": command, **versions},
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
        "Use the folder of a finished study of both."
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


def compare_variants(record: StudyRecord, first: str, second: str, *, inputs: str) -> Finding:
    """Holds if the first variant is better as a method; under a condition if only these models are better.

    An inconclusive comparison fails.
    """
    methods = find_pair(record, first, second, holds_for="method")
    models = find_pair(record, first, second, holds_for="models")
    of_models = (
        models.sentence
        if models.verdict in {"inconclusive", "same scores"}
        else f"these trained models on such {inputs} {_verdict_text(models)}"
    )
    shown = (
        f"Difference {_score_text(record, methods.difference, sign='+')}: over seeds "
        f"{_verdict_text(methods)}; {of_models}."
    )
    scores = " and ".join(
        _score_text(record, record.variant(variant).mean or 0.0) for variant in (first, second)
    )
    verdict: Verdict = "fails"
    if methods.verdict == "better":
        verdict = "holds"
    elif methods.verdict != "worse" and better_models(methods, models, record):
        verdict = "holds if"
    return Finding(
        verdict=verdict,
        reason=f"'{first}' and '{second}' have {record.metric} {scores} on {record.items} {inputs}, "
        f"means over {len(record.seeds)} seeds. {shown}",
        values=_values(methods, models, record),
        figure=runs_figure(record),
        condition=(
            f"only these {len(record.seeds)} trained models of each variant are compared, not the methods"
        ),
        counter_example=f"Not shown. {shown}",
    )


def runs_figure(record: StudyRecord) -> CurveFigure:
    """The primary metric of every run by seed, one set of points per variant."""
    return curve_figure(
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
    )


def better_models(methods: PairVerdict, models: PairVerdict, record: StudyRecord) -> bool:
    """Whether these models are better; with too few seeds for a verdict, by their interval alone."""
    if models.verdict == "better" or models.low is None or models.high is None:
        return models.verdict == "better"
    better = models.high < 0 if record.lower_is_better else models.low > 0
    return methods.verdict == "too few seeds" and better


def _score_text(record: StudyRecord, score: float, *, sign: str = "") -> str:
    return f"{score:{sign}.{record.primary.digits}f} {record.primary.unit}".rstrip()


def _verdict_text(pair: PairVerdict) -> str:
    if pair.low is None or pair.high is None:
        return f"'{pair.verdict}'"
    return f"'{pair.verdict}' (95 % interval {pair.low:+.3g} to {pair.high:+.3g})"


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
