"""Running a study from its spec to its record.

    study = StudySpec.from_sections({"recipe": "pronounce-quick", "sweep": {"cell": ["lstm", "gru"]}})
    record = run_study(study, Path("studies/mine"))

Started again in the same folder it resumes: finished runs are found by the hash of their spec, and more
seeds or variants only add runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.atomic_write import atomic_write
from regard.core.records.study import (
    CurvePoint,
    PairVerdict,
    StudyRecord,
    StudyRunRecord,
    VariantRecord,
)
from regard.runs.folder import Predictions, evaluations, read_predictions
from regard.runs.load import load
from regard.studies.attention import AgreementByVariant, agreement_by_variant, attention_examples
from regard.studies.execution.jobs import Event, Executor
from regard.studies.execution.local import LocalExecutor
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy, prepare_study
from regard.studies.run_selection import (
    CollectedRun,
    best_learning_rates,
    collect_runs,
    common_seeds,
    select_runs,
)
from regard.studies.spec import StudySpec
from regard.studies.statistics.bootstrap import ItemComparison, compare_on_items
from regard.studies.statistics.paired import SeedComparison, SeedPair, compare_over_seeds
from regard.studies.summary import (
    describe_budget,
    describe_tuning,
    disagreements,
    headline,
    reproducibility,
)
from regard.tasks import task_class
from regard.tasks.task import Task


def seed_verdicts(comparison: SeedComparison) -> list[PairVerdict]:
    """All pairs of methods; with too few seeds, without interval and detectable difference."""
    return [
        PairVerdict(
            holds_for="method",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval and _has_verdict(pair) else None,
            high=pair.interval.high if pair.interval and _has_verdict(pair) else None,
            adjusted_p=pair.holm_p,
            detectable_difference=pair.detectable_difference if _has_verdict(pair) else None,
            verdict=pair.verdict,
            sentence=pair.sentence(),
        )
        for pair in comparison.pairs
    ]


def _has_verdict(pair: SeedPair) -> bool:
    return pair.verdict != "too few seeds"


def item_verdicts(comparison: ItemComparison) -> list[PairVerdict]:
    """All pairs of trained models."""
    return [
        PairVerdict(
            holds_for="models",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval else None,
            high=pair.interval.high if pair.interval else None,
            adjusted_p=pair.holm_p,
            detectable_difference=None,
            verdict=pair.verdict,
            sentence=pair.sentence(),
        )
        for pair in comparison.pairs
    ]


SelectedRuns = Mapping[str, Mapping[int, CollectedRun]]


def collect(
    prepared: PreparedStudy,
    folder: StudyFolder,
    *,
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Read all runs, and compare the variants."""
    study = prepared.study
    spec = study.run_spec(study.variants[0], seed=study.seeds[0])
    task = task_class(spec.task)
    metric = spec.task_options.metric or next(iter(task.metrics))
    lower_is_better = task.metrics[metric]
    log("reading the runs")
    runs = collect_runs(prepared, folder)
    split = _evaluation_split(runs)
    rates = best_learning_rates(runs, metric=metric, lower_is_better=lower_is_better)
    selected = select_runs(runs, rates)
    seeds = common_seeds(selected)
    log("comparing the variants")
    over_seeds = compare_over_seeds(
        {
            variant: {seed: of_variant[seed].score(split, metric) for seed in seeds}
            for variant, of_variant in selected.items()
        },
        lower_is_better=lower_is_better,
    )
    names = [variant.variant for variant in over_seeds.variants]
    predictions = {
        variant: [read_predictions(selected[variant][seed].folder, split) for seed in seeds]
        for variant in names
    }
    on_items = _on_items(predictions, task, metric, lower_is_better=lower_is_better)
    log("comparing attention with known alignments")
    agreed = agreement_by_variant(
        {variant: [of_variant[seed] for seed in seeds] for variant, of_variant in selected.items()},
        folder,
        split=split,
    )
    first = {variant: selected[variant][seeds[0]] for variant in names}
    first_predictions = {variant: of_variant[0] for variant, of_variant in predictions.items()}
    example = next(iter(first_predictions.values()), None)
    return StudyRecord(
        name=prepared.name,
        question=study.question
        or f"Which of {len(study.variants)} variants is best on {spec.task}?",
        headline=(
            *headline(over_seeds, on_items, metric=metric, split=split),
            *_unfinished(runs),
        ),
        task=spec.task,
        split=split,
        items=len(example) if example else 0,
        metric=metric,
        lower_is_better=lower_is_better,
        seeds=seeds,
        budget=describe_budget(
            [study.run_spec(variant, seed=seeds[0]) for variant in study.variants]
        ),
        tuning=describe_tuning(study),
        matched=prepared.matched,
        variants=tuple(
            _variant(
                prepared, name, of_variant, seeds, over_seeds, agreed, split=split, rate=rates[name]
            )
            for name, of_variant in selected.items()
        ),
        runs=tuple(
            _run(collected, metric, split, selected=_is_selected(collected, selected))
            for collected in runs
        ),
        verdicts=(
            *seed_verdicts(over_seeds),
            *(item_verdicts(on_items) if on_items is not None else ()),
        ),
        disagreements=disagreements(first_predictions, task=task, metric=metric),
        attention_examples=attention_examples(
            {variant: load(collected.folder.path) for variant, collected in first.items()},
            example.inputs if example else (),
        ),
        agreement_source=agreed.source,
        reproducibility=reproducibility(prepared, runs, seeds),
    )


def _evaluation_split(runs: Sequence[CollectedRun]) -> str:
    """The test split, unless the data has none."""
    finished = [collected for collected in runs if collected.state == "finished"]
    has_test = all("test" in collected.record["scores"] for collected in finished)
    return "test" if finished and has_test else "validation"


def _on_items(
    predictions: Mapping[str, Sequence[Predictions]],
    task: type[Task],
    metric: str,
    *,
    lower_is_better: bool,
) -> ItemComparison | None:
    """Compare on items, with statistics summed over seeds: about these models together."""
    if metric not in task.corpus_metrics or not predictions:
        return None
    all_runs = [one for of_variant in predictions.values() for one in of_variant]
    # Of all runs at once: the columns may depend on the predictions.
    combined = task.item_statistics(
        metric,
        [text for one in all_runs for text in one.predictions],
        [texts for one in all_runs for texts in one.references],
    )
    of_runs = iter(np.split(combined, len(all_runs)))
    statistics = {
        variant: np.sum([next(of_runs) for _ in of_variant], axis=0)
        for variant, of_variant in predictions.items()
    }
    score = task.corpus_metric(metric).score
    return compare_on_items(statistics, score=score, lower_is_better=lower_is_better)


def _variant(
    prepared: PreparedStudy,
    name: str,
    runs: Mapping[int, CollectedRun],
    seeds: Sequence[int],
    over_seeds: SeedComparison,
    agreed: AgreementByVariant,
    *,
    split: str,
    rate: float | None,
) -> VariantRecord:
    found = next((variant for variant in over_seeds.variants if variant.variant == name), None)
    finished = [runs[seed] for seed in seeds if runs[seed].state == "finished"]
    outcomes = [collected.record["outcome"] for collected in finished]
    names = finished[0].record["scores"][split] if finished else {}
    interval = found.interval if found else None
    agreement = agreed.variants.get(name)
    profile = prepared.profiles[name]
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
            if (mean := _mean([collected.score(split, one) for collected in finished])) is not None
        },
        parameters=profile.parameters,
        flops=_mean([float(outcome["flops"]) for outcome in outcomes]),
        seconds=_mean([float(outcome["seconds"]) for outcome in outcomes]),
        peak_bytes=profile.peak_bytes,
        learning_rate=rate,
        agreement=agreement.mean if agreement else None,
        agreement_low=agreement.low if agreement else None,
        agreement_high=agreement.high if agreement else None,
        problems="; ".join(
            f"seed {seed} {runs[seed].state}: {runs[seed].reason}"
            for seed in runs
            if runs[seed].state != "finished"
        ),
    )


def _mean(values: Sequence[float]) -> float | None:
    """The mean of finite values; None if one is not finite, or there are none."""
    return float(np.mean(values)) if values and np.isfinite(values).all() else None


def _unfinished(runs: Sequence[CollectedRun]) -> list[str]:
    missing = sum(collected.state == "missing" for collected in runs)
    if not missing:
        return []
    return [f"The study is not finished: {missing} of {len(runs)} runs are missing."]


def _is_selected(collected: CollectedRun, selected: SelectedRuns) -> bool:
    return selected[collected.run.variant].get(collected.run.seed) is collected


def _run(collected: CollectedRun, metric: str, split: str, *, selected: bool) -> StudyRunRecord:
    outcome: dict[str, Any] = collected.record.get("outcome", {})
    scores: dict[str, dict[str, float]] = collected.record.get("scores", {})
    curve = evaluations(collected.folder) if collected.state == "finished" else []
    return StudyRunRecord(
        variant=collected.run.variant,
        seed=collected.run.seed,
        learning_rate=collected.run.learning_rate,
        key=collected.run.key,
        state=collected.state,
        selected=selected,
        reason=collected.reason,
        scores=_finite(scores.get(split, {})),
        validation_scores=_finite(scores.get("validation", {})),
        steps=int(outcome.get("steps", 0)),
        seconds=float(outcome.get("seconds", 0.0)),
        curve=tuple(
            CurvePoint(
                step=point.step,
                tokens=point.tokens,
                flops=float(point.flops),
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
    on_event: Callable[[Event], None] = lambda _: None,
    on_start: Callable[[PreparedStudy], None] = lambda _: None,
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Train the missing runs, and compare the variants.

    `on_event` receives every event of the executor, `on_start` the prepared study before the first run,
    `log` a line of text about each stage.
    """
    # Absolute: on a cluster, processes may have another working directory.
    study_folder = StudyFolder(folder.absolute())
    prepared = prepare_study(
        study, name=name or folder.name, command=command, plugins=plugins, log=log
    )
    study_folder.make()
    prepared.validate_resume(study_folder)
    prepared.write(study_folder)
    on_start(prepared)
    with closing((executor or LocalExecutor()).run(prepared.jobs(study_folder))) as events:
        for event in events:
            on_event(event)
    return write_record(prepared, study_folder, log=log)


def write_record(
    prepared: PreparedStudy, folder: StudyFolder, *, log: Callable[[str], None] = lambda _: None
) -> StudyRecord:
    """Collect the runs that exist, and write record.json."""
    record = collect(prepared, folder, log=log)
    atomic_write(folder.record, record.as_json())
    return record
