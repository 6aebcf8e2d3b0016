"""How well each run's attention agrees with known letter–sound alignments, where there are any.

They are known for English words, so this is of the task `pronounce` only, and of letters and phones as its
tokens. What was found for a run is kept, since it takes about a second a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from regard.core.errors import RegardError
from regard.runs.predictions import read_predictions
from regard.runs.trained import load
from regard.studies.alignment_agreement import attention_agreement, known_words
from regard.studies.chosen_runs import KnownRun
from regard.studies.detectable import critical_t
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
    chosen: Mapping[str, Mapping[int, KnownRun]], folder: StudyFolder, *, part: str
) -> Agreements:
    """Of every arm with attention, over its finished runs."""
    finished = {
        arm: [known for known in runs.values() if known.state == "finished"]
        for arm, runs in chosen.items()
    }
    some = next((known for runs in finished.values() for known in runs), None)
    if some is None or some.run.spec.task != TASK:
        return Agreements({}, "")
    kept: dict[str, float | None] = (
        folder.read(folder.agreements) if folder.agreements.is_file() else {}
    )
    try:
        dev = known_words(read_predictions(some.folder, "dev"))
        test = known_words(read_predictions(some.folder, part))
        if not (dev.words and test.words):
            return Agreements({}, "")
        found: dict[str, ArmAgreement] = {}
        for arm, runs in finished.items():
            shares = []
            for known in runs:
                key = f"{known.run.key} {part}"
                if key not in kept:
                    agreed = attention_agreement(
                        load(known.folder.path), dev=dev.words, test=test.words
                    )
                    kept[key] = None if agreed is None else agreed.share
                shares.append(kept[key])
            of_arm = [share for share in shares if share is not None]
            if of_arm:
                found[arm] = _over_seeds(of_arm)
    except RegardError as error:
        return Agreements({}, str(error))
    folder.write(folder.agreements, kept)
    return Agreements(found, test.in_words())


def _over_seeds(shares: list[float]) -> ArmAgreement:
    mean = float(np.mean(shares))
    if len(shares) == 1:
        return ArmAgreement(mean, None, None)
    error = float(np.std(shares, ddof=1)) / math.sqrt(len(shares))
    reach = critical_t(seeds=len(shares), pairs=1) * error
    return ArmAgreement(mean, mean - reach, mean + reach)
