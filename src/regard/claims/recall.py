"""Recall of what was read: what reading first is worth, and what a mechanism that sees no keys loses.

Read from the records of a study: the parameter `study` names the folder of `regard study recall`; without
one a small version is run. Scores are exact matches in percent on questions that were held out.
"""

from __future__ import annotations

from regard.claims.claim import claim
from regard.claims.recall_study import (
    READS,
    SOFTMAX,
    SYNTHESIZER,
    UNREAD,
    arm_name,
    compared_pair,
    recall_record,
)
from regard.core.claim_record import Curve, CurvePicture, Finding, Verdict
from regard.core.study_record import PairVerdict, StudyRecord

SIZES = {"seeds": (1, 20), "films": (20, 1000), "reading_steps": (1, 20_000)}


@claim(
    statement="A model that reads about things first recalls more of them when it is asked.",
    formula="exact match: reads first > no pre-training",
    source="seed 003, questions 2d, 2f and 3a; Raffel et al. 2020",
    proof="measured",
    trained=True,
    ranges=SIZES,
)
def reading_first_helps_recall(
    *,
    study: str = "",
    mechanism: str = SOFTMAX,
    seeds: int = 5,
    films: int = 150,
    reading_steps: int = 1200,
) -> Finding:
    """Compare the two arms of the study, paired by seed."""
    record = recall_record(study, seeds=seeds, films=films, reading_steps=reading_steps)
    return better_of(record, arm_name(READS, mechanism), arm_name(UNREAD, mechanism))


@claim(
    statement="A synthesizer, which sees no keys, recalls less than dot-product attention.",
    formula="exact match: scaled dot > dense synthesizer",
    source="seed 003, questions 2f and 2g; Tay et al. 2021",
    proof="measured",
    trained=True,
    ranges=SIZES,
)
def synthesizer_recalls_less(
    *,
    study: str = "",
    mechanism: str = SYNTHESIZER,
    seeds: int = 5,
    films: int = 150,
    reading_steps: int = 1200,
) -> Finding:
    """Compare the two arms of the study, paired by seed."""
    record = recall_record(study, seeds=seeds, films=films, reading_steps=reading_steps)
    return better_of(record, arm_name(READS, SOFTMAX), arm_name(READS, mechanism))


def better_of(record: StudyRecord, first: str, second: str) -> Finding:
    """Whether the first arm is better as a method; if that is open, in these trainings alone.

    What stays open fails, as in `some_or_all.py`: a difference that is not shown is none.
    """
    methods = compared_pair(record, first, second, holds_for="method")
    models = compared_pair(record, first, second, holds_for="models")
    here = (
        models.words
        if models.verdict == "cannot tell apart"
        else f"these trained models on such questions {_told(models)}"
    )
    shown = f"The difference is {methods.difference:+.1f}: over seeds {_told(methods)}; {here}."
    scores = " and ".join(f"{record.arm(arm).mean or 0.0:.1f} %" for arm in (first, second))
    verdict: Verdict = "fails"
    if methods.verdict == "better":
        verdict = "holds"
    elif methods.verdict != "worse" and better_here(methods, models, record):
        verdict = "holds if"
    return Finding(
        verdict=verdict,
        because=(
            f"'{first}' and '{second}' have {scores} of {record.items} questions right over "
            f"{len(record.seeds)} seeds. {shown}"
        ),
        figures=_figures(methods, models, record),
        picture=_scores_picture(record),
        boundary=(
            f"it is said of these {len(record.seeds)} trainings each, not of the methods"
            if verdict == "holds if"
            else ""
        ),
        counter_example=f"It is not shown. {shown}" if verdict == "fails" else "",
    )


def better_here(methods: PairVerdict, models: PairVerdict, record: StudyRecord) -> bool:
    """Whether these models are better; where seeds are too few to claim, it is enough that they seem so."""
    if models.verdict == "better" or models.low is None or models.high is None:
        return models.verdict == "better"
    seems = models.high < 0 if record.lower_is_better else models.low > 0
    return methods.verdict == "these runs only" and seems


def _told(pair: PairVerdict) -> str:
    if pair.low is None or pair.high is None:
        return f"'{pair.verdict}'"
    return f"'{pair.verdict}' (95 % interval {pair.low:+.1f} to {pair.high:+.1f})"


def _figures(
    methods: PairVerdict, models: PairVerdict, record: StudyRecord
) -> dict[str, float | int | str | bool]:
    figures: dict[str, float | int | str | bool] = {
        "difference": methods.difference,
        "seeds": len(record.seeds),
        "items": record.items,
        "of_methods": methods.verdict,
        "of_models": models.verdict,
    }
    if methods.low is not None and methods.high is not None:
        figures |= {"low": methods.low, "high": methods.high}
    return figures


def _scores_picture(record: StudyRecord) -> CurvePicture:
    return CurvePicture(
        title=f"{record.metric} of every training",
        x_label="seed",
        y_label=f"{record.metric}, %",
        curves=tuple(
            Curve(
                label=arm.name,
                x=tuple(float(run.seed) for run in record.runs_of(arm.name)),
                y=tuple(run.scores[record.metric] for run in record.runs_of(arm.name)),
                points_only=True,
            )
            for arm in record.arms
        ),
    )
