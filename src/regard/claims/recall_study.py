"""The study of recall behind the claims about it: read from its folder, or a small one run here.

The small one is the shipped study `recall` with fewer films, a smaller model and three of its arms; a
quarter of the questions is held out to test on, so that there are enough of them.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from regard.core.errors import RegardError
from regard.core.study_record import PairVerdict, StudyRecord
from regard.runs.spec import merged
from regard.studies.processes import Processes
from regard.studies.study import run_study
from regard.studies.study_files import read_study
from regard.studies.study_folder import StudyFolder
from regard.studies.study_spec import StudySpec

READS, UNREAD = "reads first", "no pre-training"
SOFTMAX, SYNTHESIZER = "scaled_dot", "synthesizer_dense"
TEST_SHARE = 0.25


def arm_name(reading: str, mechanism: str) -> str:
    """As the shipped study names its arms."""
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
    """Three arms: with and without reading, and a mechanism that sees no keys; ten minutes of a core."""
    study = StudySpec.from_sections(
        small_sections(seeds=seeds, films=films, reading_steps=reading_steps)
    )
    with tempfile.TemporaryDirectory() as folder:
        return run_study(study, Path(folder) / "recall", executor=Processes())


def small_sections(*, seeds: int, films: int, reading_steps: int) -> dict[str, object]:
    """The shipped study, made small."""
    shipped = read_study("recall")
    arms = [
        {"name": arm_name(READS, SOFTMAX), "set": [f"model.mechanism={SOFTMAX}"]},
        {"name": arm_name(READS, SYNTHESIZER), "set": [f"model.mechanism={SYNTHESIZER}"]},
        {
            "name": arm_name(UNREAD, SOFTMAX),
            "set": [f"model.mechanism={SOFTMAX}", "pretraining=none"],
        },
    ]
    kept = {key: value for key, value in shipped.items() if key != "over"}
    return merged(
        {**kept, "arms": arms, "seeds": seeds},
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
    """What a study says of two of its arms, in either order; the difference is first minus second."""
    for pair in record.verdicts:
        if pair.holds_for == holds_for and {pair.first, pair.second} == {first, second}:
            return pair if pair.first == first else _turned(pair)
    names = ", ".join(f"'{arm.name}'" for arm in record.arms)
    raise RegardError(
        f"The study '{record.name}' does not compare '{first}' with '{second}': its arms are {names}. Give "
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
