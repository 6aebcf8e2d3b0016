"""Selecting the runs to compare: one per variant and seed, with the best learning rate on validation."""

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
class CollectedRun:
    """A run of the study with its state; `record` is empty unless it is finished."""

    run: StudyRun
    folder: RunFolder
    state: RunState
    reason: str
    record: dict[str, Any]

    def score(self, split: str, metric: str) -> float:
        """A score of the best checkpoint; NaN if there is none."""
        value = self.record.get("scores", {}).get(split, {}).get(metric)
        return math.nan if value is None else float(value)


def collect_runs(prepared: PreparedStudy, folder: StudyFolder) -> list[CollectedRun]:
    """The state of every run of the study, in order."""
    return [_collect_run(run, folder) for run in prepared.study.runs()]


def _collect_run(run: StudyRun, folder: StudyFolder) -> CollectedRun:
    run_folder = RunFolder(folder.runs / run.key)
    state: RunState = "missing"
    reason, record = "not finished", {}
    failure = folder.failure(run.key)
    if run_folder.record.is_file():
        state, reason, record = "finished", "", run_folder.read_record()
    elif failure.is_file():
        state, reason = "failed", str(folder.read(failure).get("reason", "unknown"))
    return CollectedRun(run=run, folder=run_folder, state=state, reason=reason, record=record)


def best_learning_rates(
    runs: Sequence[CollectedRun], *, metric: str, lower_is_better: bool
) -> dict[str, float | None]:
    """Variant → the learning rate with the best mean validation score; failed runs count as worst.

    Only seeds for which all rates of the variant have been run are used, if there are any.
    """
    incomplete = {
        (collected.run.variant, collected.run.seed)
        for collected in runs
        if collected.state == "missing"
    }
    complete = [
        collected
        for collected in runs
        if (collected.run.variant, collected.run.seed) not in incomplete
    ]
    with_complete = {collected.run.variant for collected in complete}
    by_variant: dict[str, dict[float | None, list[float]]] = {}
    for collected in runs:
        if (
            collected.run.variant not in with_complete
            or (collected.run.variant, collected.run.seed) not in incomplete
        ):
            scores = by_variant.setdefault(collected.run.variant, {}).setdefault(
                collected.run.learning_rate, []
            )
            scores.append(collected.score("validation", metric))

    def rank(scores: list[float]) -> tuple[int, float]:
        finite = [score for score in scores if math.isfinite(score)]
        mean = sum(finite) / len(finite) if finite else math.inf
        return len(scores) - len(finite), mean if lower_is_better else -mean

    return {
        variant: min(rates, key=lambda rate: rank(rates[rate]))
        for variant, rates in by_variant.items()
    }


def select_runs(
    runs: Sequence[CollectedRun], rates: Mapping[str, float | None]
) -> dict[str, dict[int, CollectedRun]]:
    """Variant → seed → the run with the selected learning rate."""
    found: dict[str, dict[int, CollectedRun]] = {}
    for collected in runs:
        if collected.run.learning_rate == rates[collected.run.variant]:
            found.setdefault(collected.run.variant, {})[collected.run.seed] = collected
    return found


def common_seeds(selected: Mapping[str, Mapping[int, CollectedRun]]) -> tuple[int, ...]:
    """Seeds without missing runs of any variant; else the one with the fewest missing runs."""
    seeds = list(next(iter(selected.values())))
    missing = {
        seed: sum(runs[seed].state == "missing" for runs in selected.values()) for seed in seeds
    }
    complete = tuple(seed for seed in seeds if not missing[seed])
    return complete or (min(seeds, key=lambda seed: missing[seed]),)
