"""Recall of what was read: what reading first is worth, and what a mechanism that sees no keys loses.

Read from the records of a study: the parameter `study` names the folder of `regard study recall`; without
one a small version is run. Scores are exact matches in percent on questions that were held out.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from regard.claims.engine import claim
from regard.core.errors import RegardError
from regard.core.records.claim import Curve, CurvePicture, Finding, Verdict
from regard.core.records.study import PairVerdict, StudyRecord
from regard.runs.spec import merged
from regard.studies.execution.local import Processes
from regard.studies.folder import StudyFolder
from regard.studies.spec import StudySpec, read_study
from regard.studies.study import run_study

# The study of recall behind the claims about it: read from its folder, or a small one run here.
#
# The small one is the shipped study `recall` with fewer films, a smaller model and three of its
# variants; a quarter of the questions is held out to test on, so that there are enough of them.


READS, UNREAD = "reads first", "no pre-training"
SOFTMAX, SYNTHESIZER = "scaled_dot", "synthesizer_dense"
TEST_SHARE = 0.25


def variant_name(reading: str, mechanism: str) -> str:
    """As the shipped study names its variants."""
    return f"{reading} · {mechanism}"


def recall_record(study: str, *, seeds: int, films: int, reading_steps: int) -> StudyRecord:
    """What the study in this folder found; without one, what the small one finds here."""
    if not study:
        return small_study(seeds=seeds, films=films, reading_steps=reading_steps)
    folder = StudyFolder(Path(study))
    folder.read(folder.record)  # whose error names the folder
    return StudyRecord.from_json(folder.record.read_text(encoding="utf-8"))


@cache
def small_study(*, seeds: int, films: int, reading_steps: int) -> StudyRecord:
    """Three variants: with and without reading, and a mechanism that sees no keys; ten minutes of a core."""
    study = StudySpec.from_sections(
        small_sections(seeds=seeds, films=films, reading_steps=reading_steps)
    )
    with tempfile.TemporaryDirectory() as folder:
        return run_study(study, Path(folder) / "recall", executor=Processes())


def small_sections(*, seeds: int, films: int, reading_steps: int) -> dict[str, object]:
    """The shipped study, made small."""
    shipped = read_study("recall")
    variants = [
        {"name": variant_name(READS, SOFTMAX), "set": [f"model.mechanism={SOFTMAX}"]},
        {"name": variant_name(READS, SYNTHESIZER), "set": [f"model.mechanism={SYNTHESIZER}"]},
        {
            "name": variant_name(UNREAD, SOFTMAX),
            "set": [f"model.mechanism={SOFTMAX}", "pretraining=none"],
        },
    ]
    kept = {key: value for key, value in shipped.items() if key != "over"}
    return merged(
        {**kept, "variants": variants, "seeds": seeds},
        {
            "task": {"films": films, "test_share": TEST_SHARE},
            "model": {"model_dim": 64, "num_layers": 2},
            "pretraining": {
                "task": {"films": films},
                "training": {"steps": reading_steps, "evaluate_every": reading_steps},
            },
            "training": {"steps": 100, "evaluate_every": 100},
        },
    )


def compared_pair(record: StudyRecord, first: str, second: str, *, holds_for: str) -> PairVerdict:
    """What a study says of two of its variants, in either order; the difference is first minus second."""
    for pair in record.verdicts:
        if pair.holds_for == holds_for and {pair.first, pair.second} == {first, second}:
            return pair if pair.first == first else _turned(pair)
    names = ", ".join(f"'{variant.name}'" for variant in record.variants)
    raise RegardError(
        f"The study '{record.name}' does not compare '{first}' with '{second}': its variants are {names}. Give "
        "the folder of a finished `regard study recall`."
    )


def _turned(pair: PairVerdict) -> PairVerdict:
    opposite = {"better": "worse", "worse": "better"}
    return PairVerdict(
        holds_for=pair.holds_for,
        first=pair.second,
        second=pair.first,
        difference=-pair.difference,
        low=None if pair.high is None else -pair.high,
        high=None if pair.low is None else -pair.low,
        adjusted_p=pair.adjusted_p,
        detectable=pair.detectable,
        verdict=opposite.get(pair.verdict, pair.verdict),
        words=pair.words,
    )


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
    """Compare the two variants of the study, paired by seed."""
    record = recall_record(study, seeds=seeds, films=films, reading_steps=reading_steps)
    return better_of(record, variant_name(READS, mechanism), variant_name(UNREAD, mechanism))


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
    """Compare the two variants of the study, paired by seed."""
    record = recall_record(study, seeds=seeds, films=films, reading_steps=reading_steps)
    return better_of(record, variant_name(READS, SOFTMAX), variant_name(READS, mechanism))


def better_of(record: StudyRecord, first: str, second: str) -> Finding:
    """Whether the first variant is better as a method; if that is open, in these trainings alone.

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
    scores = " and ".join(
        f"{record.variant(variant).mean or 0.0:.1f} %" for variant in (first, second)
    )
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
                label=variant.name,
                x=tuple(float(run.seed) for run in record.runs_of(variant.name)),
                y=tuple(run.scores[record.metric] for run in record.runs_of(variant.name)),
                points_only=True,
            )
            for variant in record.variants
        ),
    )
