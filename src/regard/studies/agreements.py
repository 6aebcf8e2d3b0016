"""How well each run's attention agrees with known letter–sound alignments, where there are any.

They are known for English words, so this is of the task `pronounce` only, and of letters and phones as its
tokens. What was found for a run is kept, since it takes about a second a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regard.core.errors import RegardError
from regard.runs.predictions import read_predictions
from regard.runs.trained import load
from regard.studies.alignment_agreement import KnownWords, attention_agreement, known_words
from regard.studies.chosen_runs import KnownRun
from regard.studies.seed_interval import seed_interval
from regard.studies.study_folder import StudyFolder

TASK = "pronounce"


class ArmAgreement(NamedTuple):
    """The mean share over seeds with its 95 % interval, which one seed does not have."""

    mean: float
    low: float | None
    high: float | None


class Agreements(NamedTuple):
    """By arm, and a sentence on where the known alignments come from, or why there are none."""

    arms: dict[str, ArmAgreement]
    source: str


def agreements(
    runs: Mapping[str, Sequence[KnownRun]], folder: StudyFolder, *, part: str
) -> Agreements:
    """Of every arm with attention, over those of its runs that are finished."""
    finished = {
        arm: [known for known in of_arm if known.state == "finished"]
        for arm, of_arm in runs.items()
    }
    some = next((known for of_arm in finished.values() for known in of_arm), None)
    if some is None or some.run.spec.task != TASK:
        return Agreements({}, "")
    try:
        dev = known_words(read_predictions(some.folder, "dev"))
        test = known_words(read_predictions(some.folder, part))
    except RegardError as error:
        return Agreements({}, str(error))
    if not (dev.words and test.words):
        return Agreements({}, "no held-out word has a known alignment.")
    kept: dict[str, float | None] = (
        folder.read(folder.agreements) if folder.agreements.is_file() else {}
    )
    found: dict[str, ArmAgreement] = {}
    reasons: list[str] = []
    for arm, of_arm in finished.items():
        try:
            shares = [_share(known, kept, part=part, dev=dev, test=test) for known in of_arm]
        except RegardError as error:
            reasons.append(f"{arm}: {error}")
            continue
        if with_attention := [share for share in shares if share is not None]:
            found[arm] = _over_seeds(with_attention)
    folder.write(folder.agreements, kept)
    return Agreements(found, "; ".join([test.in_words(), *reasons]))


def _share(
    known: KnownRun, kept: dict[str, float | None], *, part: str, dev: KnownWords, test: KnownWords
) -> float | None:
    key = f"{known.run.key} {part}"
    if key not in kept:
        agreed = attention_agreement(load(known.folder.path), dev=dev.words, test=test.words)
        kept[key] = None if agreed is None else agreed.share
    return kept[key]


def _over_seeds(shares: list[float]) -> ArmAgreement:
    interval = seed_interval(shares)
    low, high = interval if interval is not None else (None, None)
    return ArmAgreement(float(np.mean(shares)), low, high)
