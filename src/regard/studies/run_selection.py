"""Which runs count: one a seed and variant, with the learning rate that did best on the validation part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.records.study import RunState
from regard.runs.folder import RunFolder
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy
from regard.studies.spec import StudyRun


@dataclass(frozen=True, kw_only=True)
class KnownRun:
    """A run of the study and what has become of it; `record` is empty unless it is finished."""

    run: StudyRun
    folder: RunFolder
    state: RunState
    reason: str
    record: dict[str, Any]

    def score(self, part: str, metric: str) -> float:
        """A score of the kept weights; not a number if there is none."""
        value = self.record.get("scores", {}).get(part, {}).get(metric)
        return math.nan if value is None else float(value)


def known_runs(prepared: PreparedStudy, folder: StudyFolder) -> list[KnownRun]:
    """Every run of the study, in its order."""
    return [_known(run, folder) for run in prepared.study.runs()]


def _known(run: StudyRun, folder: StudyFolder) -> KnownRun:
    run_folder = RunFolder(folder.runs / run.key)
    state: RunState = "missing"
    reason, record = "it has not been run to its end", {}
    failure = folder.failure(run.key)
    if run_folder.record.is_file():
        state, reason, record = "finished", "", run_folder.read_json(run_folder.record)
    elif failure.is_file():
        state, reason = "failed", str(folder.read(failure).get("reason", "no reason was kept"))
    return KnownRun(run=run, folder=run_folder, state=state, reason=reason, record=record)


def best_rates(
    runs: Sequence[KnownRun], *, metric: str, lower_is_better: bool
) -> dict[str, float | None]:
    """Variant → the learning rate with the best mean on validation; a rate with a run that failed comes last.

    Only seeds count with which every rate of the variant has been tried, if there are any.
    """
    untried = {(known.run.variant, known.run.seed) for known in runs if known.state == "missing"}
    tried = [known for known in runs if (known.run.variant, known.run.seed) not in untried]
    whole = {known.run.variant for known in tried}
    by_variant: dict[str, dict[float | None, list[float]]] = {}
    for known in runs:
        if known.run.variant not in whole or (known.run.variant, known.run.seed) not in untried:
            scores = by_variant.setdefault(known.run.variant, {}).setdefault(
                known.run.learning_rate, []
            )
            scores.append(known.score("validation", metric))

    def badness(scores: list[float]) -> tuple[int, float]:
        found = [score for score in scores if math.isfinite(score)]
        mean = sum(found) / len(found) if found else math.inf
        return len(scores) - len(found), mean if lower_is_better else -mean

    return {
        variant: min(rates, key=lambda rate: badness(rates[rate]))
        for variant, rates in by_variant.items()
    }


def by_variant_and_seed(
    runs: Sequence[KnownRun], rates: Mapping[str, float | None]
) -> dict[str, dict[int, KnownRun]]:
    """The runs that count."""
    found: dict[str, dict[int, KnownRun]] = {}
    for known in runs:
        if known.run.learning_rate == rates[known.run.variant]:
            found.setdefault(known.run.variant, {})[known.run.seed] = known
    return found


def common_seeds(chosen: Mapping[str, Mapping[int, KnownRun]]) -> tuple[int, ...]:
    """Seeds with which every variant has been run to its end or failed; else the one that most variants have."""
    seeds = list(next(iter(chosen.values())))
    missing = {
        seed: sum(runs[seed].state == "missing" for runs in chosen.values()) for seed in seeds
    }
    whole = tuple(seed for seed in seeds if not missing[seed])
    return whole or (min(seeds, key=lambda seed: missing[seed]),)
