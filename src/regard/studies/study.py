"""A study from its spec to its record, in one call.

    study = StudySpec.from_sections({"recipe": "pronounce-quick", "over": {"cell": ["lstm", "gru"]}})
    record = run_study(study, Path("studies/mine"))

Started again in the same folder it goes on: finished runs are recognised by their specs, and more seeds or
variants only add runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.atomic_write import write_whole
from regard.core.records.study import (
    CurvePoint,
    PairVerdict,
    StudyRecord,
    StudyRunRecord,
    VariantRecord,
)
from regard.runs.folder import Predictions, evaluations, read_predictions
from regard.runs.load import load
from regard.studies.attention import Agreements, agreements, shared_pictures
from regard.studies.execution.jobs import Event, Executor
from regard.studies.execution.local import Processes
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy, prepare_study
from regard.studies.run_selection import (
    KnownRun,
    best_rates,
    by_variant_and_seed,
    common_seeds,
    known_runs,
)
from regard.studies.spec import StudySpec
from regard.studies.statistics.bootstrap import ItemComparison, compare_on_items
from regard.studies.statistics.compare_seeds import SeedComparison, SeedPair, compare_over_seeds
from regard.studies.summary import (
    budget_words,
    disagreements,
    headline,
    repeating_facts,
    tries_words,
)
from regard.tasks import task_class
from regard.tasks.task import RunTask

# Comparisons as the records that a page shows.


def seed_verdicts(comparison: SeedComparison) -> list[PairVerdict]:
    """Every pair of methods; where no claim may be made there is no interval that would read as one."""
    return [
        PairVerdict(
            holds_for="method",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval and _claims(pair) else None,
            high=pair.interval.high if pair.interval and _claims(pair) else None,
            adjusted_p=pair.holm_p,
            detectable=pair.detectable if _claims(pair) else None,
            verdict=pair.verdict,
            words=pair.in_words(),
        )
        for pair in comparison.pairs
    ]


def _claims(pair: SeedPair) -> bool:
    return pair.verdict != "these runs only"


def item_verdicts(comparison: ItemComparison) -> list[PairVerdict]:
    """Every pair of sets of models."""
    return [
        PairVerdict(
            holds_for="models",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval else None,
            high=pair.interval.high if pair.interval else None,
            adjusted_p=pair.holm_p,
            detectable=None,
            verdict=pair.verdict,
            words=pair.in_words(),
        )
        for pair in comparison.pairs
    ]


# From the runs of a study to its record: everything that its page shows.


Chosen = Mapping[str, Mapping[int, KnownRun]]


def gather(
    prepared: PreparedStudy,
    folder: StudyFolder,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Read every run and compare them."""
    study = prepared.study
    spec = study.spec_of(study.variants[0], seed=study.seeds[0])
    task = task_class(spec.task)
    metric = spec.task_options.metric or next(iter(task.metrics))
    lower_is_better = task.metrics[metric]
    tell("reading the runs")
    runs = known_runs(prepared, folder)
    part = _part(runs)
    rates = best_rates(runs, metric=metric, lower_is_better=lower_is_better)
    chosen = by_variant_and_seed(runs, rates)
    seeds = common_seeds(chosen)
    tell("comparing the variants")
    over_seeds = compare_over_seeds(
        {
            variant: {seed: of_variant[seed].score(part, metric) for seed in seeds}
            for variant, of_variant in chosen.items()
        },
        lower_is_better=lower_is_better,
    )
    compared = [variant.variant for variant in over_seeds.variants]
    predictions = {
        variant: [read_predictions(chosen[variant][seed].folder, part) for seed in seeds]
        for variant in compared
    }
    on_items = _on_items(predictions, task, metric, lower_is_better=lower_is_better)
    tell("looking at what the variants attend to")
    agreed = agreements(
        {variant: [of_variant[seed] for seed in seeds] for variant, of_variant in chosen.items()},
        folder,
        part=part,
    )
    first = {variant: chosen[variant][seeds[0]] for variant in compared}
    first_written = {variant: of_variant[0] for variant, of_variant in predictions.items()}
    some = next(iter(first_written.values()), None)
    return StudyRecord(
        name=prepared.name,
        question=study.question
        or f"Which of {len(study.variants)} variants does best on {spec.task}?",
        headline=(
            *headline(over_seeds, on_items, metric=metric, part=part),
            *_unfinished(runs),
        ),
        task=spec.task,
        part=part,
        items=len(some) if some else 0,
        metric=metric,
        lower_is_better=lower_is_better,
        seeds=seeds,
        budget=budget_words([study.spec_of(variant, seed=seeds[0]) for variant in study.variants]),
        tries=tries_words(study),
        matched=prepared.matched,
        variants=tuple(
            _variant(
                prepared, name, of_variant, seeds, over_seeds, agreed, part=part, rate=rates[name]
            )
            for name, of_variant in chosen.items()
        ),
        runs=tuple(_run(known, metric, part, counts=_counts(known, chosen)) for known in runs),
        verdicts=(
            *seed_verdicts(over_seeds),
            *(item_verdicts(on_items) if on_items is not None else ()),
        ),
        disagreements=disagreements(first_written, task=task, metric=metric),
        pictures=shared_pictures(
            {variant: load(known.folder.path) for variant, known in first.items()},
            some.sources if some else (),
        ),
        agreement_source=agreed.source,
        facts=repeating_facts(prepared, runs, seeds),
    )


def _part(runs: Sequence[KnownRun]) -> str:
    """The test part, unless the data has none."""
    finished = [known for known in runs if known.state == "finished"]
    has_test = all("test" in known.record["scores"] for known in finished)
    return "test" if finished and has_test else "validation"


def _on_items(
    predictions: Mapping[str, Sequence[Predictions]],
    task: type[RunTask],
    metric: str,
    *,
    lower_is_better: bool,
) -> ItemComparison | None:
    """Statistics are added up over the seeds: the answer is about these models together."""
    if metric not in task.summed or not predictions:
        return None
    every = [one for of_variant in predictions.values() for one in of_variant]
    # Of all runs at once: which columns there are may depend on what was predicted.
    together = task.item_statistics(
        metric,
        [text for one in every for text in one.predicted],
        [choices for one in every for choices in one.answers],
    )
    of_runs = iter(np.split(together, len(every)))
    statistics = {
        variant: np.sum([next(of_runs) for _ in of_variant], axis=0)
        for variant, of_variant in predictions.items()
    }
    score = task.summed_metric(metric).score
    return compare_on_items(statistics, score=score, lower_is_better=lower_is_better)


def _variant(
    prepared: PreparedStudy,
    name: str,
    runs: Mapping[int, KnownRun],
    seeds: Sequence[int],
    over_seeds: SeedComparison,
    agreed: Agreements,
    *,
    part: str,
    rate: float | None,
) -> VariantRecord:
    found = next((variant for variant in over_seeds.variants if variant.variant == name), None)
    finished = [runs[seed] for seed in seeds if runs[seed].state == "finished"]
    outcomes = [known.record["outcome"] for known in finished]
    names = finished[0].record["scores"][part] if finished else {}
    interval = found.interval if found else None
    agreement = agreed.variants.get(name)
    size = prepared.sizes[name]
    return VariantRecord(
        name=name,
        settings=prepared.study.variant(name).changes,
        is_baseline=name == prepared.study.baseline,
        mean=found.mean if found else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        scores={
            one: mean
            for one in names
            if (mean := _mean([known.score(part, one) for known in finished])) is not None
        },
        parameters=size.parameters,
        operations=_mean([float(outcome["operations"]) for outcome in outcomes]),
        seconds=_mean([float(outcome["seconds"]) for outcome in outcomes]),
        peak_bytes=size.peak_bytes,
        learning_rate=rate,
        agreement=agreement.mean if agreement else None,
        agreement_low=agreement.low if agreement else None,
        agreement_high=agreement.high if agreement else None,
        trouble="; ".join(
            f"seed {seed} {runs[seed].state}: {runs[seed].reason}"
            for seed in runs
            if runs[seed].state != "finished"
        ),
    )


def _mean(values: Sequence[float]) -> float | None:
    """The mean of values that are all numbers; None if one is not, or there are none."""
    return float(np.mean(values)) if values and np.isfinite(values).all() else None


def _unfinished(runs: Sequence[KnownRun]) -> list[str]:
    missing = sum(known.state == "missing" for known in runs)
    if not missing:
        return []
    return [f"The study is not finished: {missing} of {len(runs)} runs are missing."]


def _counts(known: KnownRun, chosen: Chosen) -> bool:
    return chosen[known.run.variant].get(known.run.seed) is known


def _run(known: KnownRun, metric: str, part: str, *, counts: bool) -> StudyRunRecord:
    outcome: dict[str, Any] = known.record.get("outcome", {})
    scores: dict[str, dict[str, float]] = known.record.get("scores", {})
    curve = evaluations(known.folder) if known.state == "finished" else []
    return StudyRunRecord(
        variant=known.run.variant,
        seed=known.run.seed,
        learning_rate=known.run.learning_rate,
        key=known.run.key,
        state=known.state,
        counts=counts,
        reason=known.reason,
        scores=_finite(scores.get(part, {})),
        validation_scores=_finite(scores.get("validation", {})),
        steps=int(outcome.get("steps", 0)),
        seconds=float(outcome.get("seconds", 0.0)),
        curve=tuple(
            CurvePoint(
                step=point.step,
                tokens=point.tokens,
                operations=float(point.operations),
                seconds=point.seconds,
                score=score,
            )
            for point in curve
            if (score := point.scores.get(metric)) is not None and math.isfinite(score)
        ),
    )


def _finite(scores: Mapping[str, float | None]) -> dict[str, float]:
    return {
        name: score for name, score in scores.items() if score is not None and math.isfinite(score)
    }


def run_study(
    study: StudySpec,
    folder: Path,
    *,
    name: str = "",
    command: str = "",
    plugins: Sequence[str] = (),
    executor: Executor | None = None,
    watch: Callable[[Event], None] = lambda _: None,
    began: Callable[[PreparedStudy], None] = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Train what is not trained yet, and compare.

    `watch` is told of every event of the executor, `began` of the study once it is ready to run, `tell` a
    line about each stage.
    """
    # In full: on a cluster, processes may have another current folder.
    place = StudyFolder(folder.absolute())
    prepared = prepare_study(
        study, name=name or folder.name, command=command, plugins=plugins, tell=tell
    )
    place.make()
    prepared.require_continued(place)
    prepared.write(place)
    began(prepared)
    with closing((executor or Processes()).run(prepared.jobs(place))) as events:
        for event in events:
            watch(event)
    return compared(prepared, place, tell=tell)


def compared(
    prepared: PreparedStudy, folder: StudyFolder, *, tell: Callable[[str], None] = lambda _: None
) -> StudyRecord:
    """The record of the runs there are, kept in the folder."""
    record = gather(prepared, folder, tell=tell)
    write_whole(folder.record, record.as_json())
    return record
