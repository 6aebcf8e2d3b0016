"""Selecting the runs to compare: one per variant and seed, with its tuned learning rate.

Learning rates are tuned with seeds of their own: a rate chosen on the runs that are then compared would
favour the variants with more noise between seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from regard.core.errors import RegardError
from regard.core.records.study import RunState
from regard.runs.folder import RunFolder
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy
from regard.studies.spec import StudyRun
from regard.tasks import task_class
from regard.tasks.metrics import Metric
from regard.tasks.task import Task


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


def total_cost(record: Mapping[str, Any], name: str) -> int | float:
    """What a run used (tokens, flops, seconds …), with its pre-training; `record` is that of the run."""
    stages = [record.get(stage, {}) for stage in ("pretraining", "outcome")]
    total: int | float = sum(stage.get(name, 0) for stage in stages)
    return total


class CollectedRuns(NamedTuple):
    """The runs of a study. `rates` has the selected learning rate of every variant that is tuned."""

    tuning: list[CollectedRun]
    rates: dict[str, float | None]
    compared: list[CollectedRun]


def collect_runs(
    prepared: PreparedStudy, folder: StudyFolder, *, is_resumed: bool = False
) -> CollectedRuns:
    """The state of every run of the study, in order; compared are those with the selected rates.

    If the study `is_resumed`, runs that are missing or lack their record will be trained again.
    """
    study, collect_run = prepared.study, partial(_collect_run, is_resumed=is_resumed)
    tuning = [collect_run(run, folder) for run in study.runs() if run.is_tuning]
    rates: dict[str, float | None] = {
        variant.name: study.first_learning_rate for variant in study.variants
    }
    if tuning:
        spec = study.run_spec(study.variants[0], seed=study.seeds[0])
        metric, *_ = study_metrics(task_class(spec.task), spec.task_options, tuning, "validation")
        rates = best_learning_rates(
            tuning, metric=metric.name, lower_is_better=metric.lower_is_better
        )
    compared = []
    for run in study.runs():
        if not run.is_tuning and run.learning_rate == rates.get(
            run.variant, study.first_learning_rate
        ):
            is_tuned = run.variant in rates
            compared.append(collect_run(run, folder) if is_tuned else _untuned(run, folder))
    return CollectedRuns(tuning, rates, compared)


def _untuned(run: StudyRun, folder: StudyFolder) -> CollectedRun:
    return CollectedRun(
        run=replace(run, learning_rate=None),
        folder=RunFolder(folder.runs / run.key),
        state="missing",
        reason="its learning rate is not tuned yet",
        record={},
    )


def _collect_run(run: StudyRun, folder: StudyFolder, *, is_resumed: bool) -> CollectedRun:
    run_folder = RunFolder(folder.runs / run.key)
    state: RunState = "missing"
    reason, record = "not finished", {}
    failure = folder.failure(run.key)
    if run_folder.exists:
        run_folder.verify(key=run.key, is_resumed=is_resumed)
    if run_folder.record.is_file():
        state, reason, record = "finished", "", run_folder.read_record()
    elif not is_resumed and run.key in folder.finished_keys():
        raise RegardError(
            f"The finished run '{run_folder.path}' ({run.variant}, seed {run.seed}) is missing. Restore it,"
            " or run the study again to repeat it."
        )
    elif folder.is_listed(failure) or failure.exists():
        state, reason = "failed", "" if is_resumed else str(folder.read(failure)["reason"])
    return CollectedRun(run=run, folder=run_folder, state=state, reason=reason, record=record)


def study_metrics(
    task: type[Task], options: Any, runs: Sequence[CollectedRun], split: str
) -> list[Metric]:
    """The metrics that the runs have, the chosen one first; by default the first of the task."""
    scored = {name for run in runs for name in run.record.get("scores", {}).get(split, {})}
    return scored_metrics(task, options, scored)


def scored_metrics(task: type[Task], options: Any, scored: Collection[str]) -> list[Metric]:
    """The metrics whose scores are known by name, the chosen one first."""
    found = [metric for metric in task.all_metrics(options) if metric.name in scored]
    chosen = task.metric_named(options.metric, options)
    if options.metric or not found:
        found = [chosen, *(metric for metric in found if metric.name != chosen.name)]
    return found


def best_learning_rates(
    runs: Sequence[CollectedRun], *, metric: str, lower_is_better: bool
) -> dict[str, float | None]:
    """Variant → the learning rate with the best mean validation score; failed runs count as worst.

    Of equal ones, that with the lowest validation loss. A variant with a missing run has no rate yet.
    """
    by_variant: dict[str, dict[float | None, list[CollectedRun]]] = {}
    for collected in runs:
        rates = by_variant.setdefault(collected.run.variant, {})
        rates.setdefault(collected.run.learning_rate, []).append(collected)
    for collected in runs:
        if collected.state == "missing":
            by_variant.pop(collected.run.variant, None)

    def rank(tried: list[CollectedRun]) -> tuple[int, float, float]:
        scores = _finite_scores(tried, metric)
        mean = _mean(scores)
        loss = _mean(_finite_scores(tried, "loss"))
        return len(tried) - len(scores), mean if lower_is_better else -mean, loss

    return {
        variant: min(rates, key=lambda rate: rank(rates[rate]))
        for variant, rates in by_variant.items()
    }


def _finite_scores(runs: Sequence[CollectedRun], metric: str) -> list[float]:
    scores = (collected.score("validation", metric) for collected in runs)
    return [score for score in scores if math.isfinite(score)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.inf


def select_runs(runs: Sequence[CollectedRun]) -> dict[str, dict[int, CollectedRun]]:
    """Variant → seed → its run."""
    found: dict[str, dict[int, CollectedRun]] = {}
    for collected in runs:
        found.setdefault(collected.run.variant, {})[collected.run.seed] = collected
    return found


def common_seeds(selected: Mapping[str, Mapping[int, CollectedRun]]) -> tuple[int, ...]:
    """Seeds without missing runs of any variant; else the one with the fewest missing runs.

    None if there is no seed that all variants have.
    """
    first, *others = selected.values()
    seeds = [seed for seed in first if all(seed in runs for runs in others)]
    if not seeds:
        return ()
    missing = {
        seed: sum(runs[seed].state == "missing" for runs in selected.values()) for seed in seeds
    }
    complete = tuple(seed for seed in seeds if not missing[seed])
    return complete or (min(seeds, key=lambda seed: missing[seed]),)
