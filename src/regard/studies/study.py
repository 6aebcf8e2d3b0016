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
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import RegardError
from regard.core.records.study import (
    CurvePoint,
    MetricRecord,
    PairVerdict,
    ScoreRecord,
    StudyRecord,
    StudyRunRecord,
    VariantRecord,
)
from regard.runs.folder import Predictions, evaluations, read_predictions
from regard.runs.load import load
from regard.studies.attention import AgreementByVariant, agreement_by_variant, attention_examples
from regard.studies.execution.jobs import Event, Executor, Job
from regard.studies.execution.local import LocalExecutor
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy, prepare_study
from regard.studies.run_selection import (
    CollectedRun,
    collect_runs,
    common_seeds,
    select_runs,
    study_metrics,
)
from regard.studies.spec import StudySpec
from regard.studies.statistics.bootstrap import ItemComparison, compare_on_items
from regard.studies.statistics.paired import (
    MIN_PAIRING_SEEDS,
    SeedComparison,
    SeedPair,
    compare_over_seeds,
    pairing,
)
from regard.studies.summary import (
    Flops,
    describe_budget,
    describe_tuning,
    disagreements,
    flops_ratio,
    headline,
    reproducibility,
    unfinished_headline,
)
from regard.tasks import task_class
from regard.tasks.metrics import Metric


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """The variants compared by one metric: over seeds and, if it is item-wise, over items."""

    metric: Metric
    over_seeds: SeedComparison
    on_items: ItemComparison | None

    def score_of(self, name: str) -> ScoreRecord:
        """Mean and intervals of a variant."""
        over_seeds = _of_variant(self.over_seeds, name)
        if over_seeds is None:
            return ScoreRecord()
        on_items = _of_variant(self.on_items, name) if self.on_items else None
        low, high = over_seeds.interval or (None, None)
        item_low, item_high = (on_items and on_items.interval) or (None, None)
        return ScoreRecord(
            mean=over_seeds.mean, low=low, high=high, item_low=item_low, item_high=item_high
        )

    def verdicts(self, flops: Flops) -> list[PairVerdict]:
        """All pairs of methods, then of trained models."""
        return [
            verdict
            for comparison in (self.over_seeds, self.on_items)
            if comparison is not None
            for verdict in _pair_verdicts(comparison, self.metric.name, flops)
        ]

    def descriptive(self) -> MetricComparison:
        """The means alone."""
        variants = tuple(replace(each, interval=None) for each in self.over_seeds.variants)
        over_seeds = replace(self.over_seeds, variants=variants, pairs=())
        return replace(self, over_seeds=over_seeds, on_items=None)


def _of_variant(comparison: Any, name: str) -> Any:
    return next((variant for variant in comparison.variants if variant.variant == name), None)


def _pair_verdicts(
    comparison: SeedComparison | ItemComparison, metric: str, flops: Flops
) -> list[PairVerdict]:
    """All pairs; with too few seeds, without interval and detectable difference."""
    found = []
    for pair in comparison.pairs:
        few = pair.verdict == "too few seeds"
        low, high = (None, None) if few or pair.interval is None else pair.interval
        found.append(
            PairVerdict(
                metric=metric,
                holds_for="method" if isinstance(pair, SeedPair) else "models",
                first=pair.first,
                second=pair.second,
                difference=pair.difference,
                low=low,
                high=high,
                adjusted_p=pair.holm_p,
                detectable_difference=pair.detectable_difference
                if isinstance(pair, SeedPair) and not few
                else None,
                verdict=pair.verdict,
                sentence=pair.sentence(),
                flops_ratio=flops_ratio(flops, pair.first, pair.second),
            )
        )
    return found


SelectedRuns = Mapping[str, Mapping[int, CollectedRun]]


def collect(
    prepared: PreparedStudy,
    folder: StudyFolder,
    *,
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Read all runs, and compare the variants; before all runs have ended, describe them only."""
    study = prepared.study
    spec = study.run_spec(study.variants[0], seed=study.seeds[0])
    log("reading the runs")
    tuning, rates, compared = collect_runs(prepared, folder)
    runs = [*tuning, *compared]
    missing = _missing(compared)
    sizes = prepared.profiles[study.variants[0].name].data
    split = _evaluation_split(runs, sizes)
    primary, *others = study_metrics(task_class(spec.task), spec.task_options, runs, split)
    metric = primary.name
    selected = select_runs(compared)
    seeds = common_seeds(selected)
    log("comparing the variants")
    names = [
        variant
        for variant, of_variant in selected.items()
        if all(math.isfinite(of_variant[seed].score(split, metric)) for seed in seeds)
    ]
    predictions = {
        variant: [read_predictions(selected[variant][seed].folder, split) for seed in seeds]
        for variant in names
    }
    comparisons = [
        _compare(one, selected, {} if missing else predictions, seeds=seeds, split=split, log=log)
        for one in (primary, *others)
    ]
    if missing:
        comparisons = [one.descriptive() for one in comparisons]
    over_seeds, on_items = comparisons[0].over_seeds, comparisons[0].on_items
    log("comparing attention with known alignments")
    agreed = agreement_by_variant(
        {variant: [of_variant[seed] for seed in seeds] for variant, of_variant in selected.items()},
        folder,
        split=split,
    )
    variants = tuple(
        _variant(prepared, name, of_variant, seeds, comparisons, agreed, rate=rates.get(name))
        for name, of_variant in selected.items()
    )
    flops = {variant.name: variant.flops for variant in variants}
    run_records = tuple(
        _run(collected, metric, split, selected=not collected.run.is_tuning) for collected in runs
    )
    if missing:
        variants = tuple(
            replace(variant, agreement_low=None, agreement_high=None) for variant in variants
        )
        summary = unfinished_headline(
            missing,
            ended=sum(collected.state != "missing" for collected in runs),
            runs=len(runs),
            seeds=seeds if names else (),
            command=prepared.command,
        )
    else:
        summary = headline(over_seeds, on_items, metric=primary, split=split, flops=flops)
    first = {variant: selected[variant][seeds[0]] for variant in names}
    first_predictions = {variant: of_variant[0] for variant, of_variant in predictions.items()}
    example = next(iter(first_predictions.values()), None)
    return StudyRecord(
        name=prepared.name,
        question=study.question
        or f"Which of {len(study.variants)} variants is best on {spec.task}?",
        headline=summary,
        task=spec.task,
        split=split,
        items=len(example) if example else sizes.get(f"{split}_items", 0),
        metrics=tuple(_metric_record(one.metric) for one in comparisons),
        seeds=seeds,
        budget=describe_budget(
            [study.run_spec(variant, seed=seeds[0]) for variant in study.variants],
            flops,
            [run.evaluations for run in run_records if run.selected and run.state == "finished"],
        ),
        tuning=describe_tuning(study, is_tuned=len(rates) == len(study.variants)),
        matched=prepared.matched,
        variants=variants,
        runs=run_records,
        verdicts=tuple(verdict for one in comparisons for verdict in one.verdicts(flops)),
        disagreements=disagreements(
            first_predictions,
            metric=next((one for one in (primary, *others) if one.is_itemwise), None),
        ),
        attention_examples=attention_examples(
            {variant: load(collected.folder.path) for variant, collected in first.items()},
            example.inputs if example else (),
        ),
        agreement_source=agreed.source,
        reproducibility=reproducibility(prepared, runs),
        pairing=pairing({name: _scores(selected[name], seeds, split, metric) for name in names})
        if not missing and len(names) > 1 and len(seeds) >= MIN_PAIRING_SEEDS
        else None,
        missing=missing,
    )


def _evaluation_split(runs: Sequence[CollectedRun], sizes: Mapping[str, Any]) -> str:
    """The test split, unless the data has none; `sizes` are those of the splits."""
    finished = [collected for collected in runs if collected.state == "finished"]
    has_test = all("test" in collected.record["scores"] for collected in finished)
    return "test" if has_test and (finished or sizes.get("test_items")) else "validation"


def _metric_record(metric: Metric) -> MetricRecord:
    return MetricRecord(
        **{field.name: getattr(metric, field.name) for field in fields(MetricRecord)}
    )


def _compare(
    metric: Metric,
    selected: SelectedRuns,
    predictions: Mapping[str, Sequence[Predictions]],
    *,
    seeds: Sequence[int],
    split: str,
    log: Callable[[str], None],
) -> MetricComparison:
    """Compare the variants by one metric."""
    over_seeds = compare_over_seeds(
        {name: _scores(runs, seeds, split, metric.name) for name, runs in selected.items()},
        lower_is_better=metric.lower_is_better,
    )
    on_items = None
    try:
        on_items = _on_items(metric, predictions)
    except RegardError as error:
        # The other comparisons of a trained study stay valid.
        log(f"{metric.name} is not compared over items: {error}")
    return MetricComparison(metric=metric, over_seeds=over_seeds, on_items=on_items)


def _scores(
    runs: Mapping[int, CollectedRun], seeds: Sequence[int], split: str, metric: str
) -> dict[int, float]:
    return {seed: runs[seed].score(split, metric) for seed in seeds}


def _on_items(
    metric: Metric, predictions: Mapping[str, Sequence[Predictions]]
) -> ItemComparison | None:
    """Compare on items, with statistics summed over seeds: about these models together."""
    if not metric.is_itemwise or not predictions:
        return None
    all_runs = [one for of_variant in predictions.values() for one in of_variant]
    if any(one.references != all_runs[0].references for one in all_runs):
        raise RegardError(
            "The runs were evaluated on different items. Evaluate all on the same data."
        )
    # Of all runs at once: the columns may depend on the predictions.
    rows = metric.table(
        [output for one in all_runs for output in one.predictions],
        [reference for one in all_runs for reference in one.references],
    )
    of_runs = iter(np.split(rows, len(all_runs)))
    statistics = {
        variant: np.sum([next(of_runs) for _ in of_variant], axis=0)
        for variant, of_variant in predictions.items()
    }
    return compare_on_items(statistics, score=metric.score, lower_is_better=metric.lower_is_better)


def _variant(
    prepared: PreparedStudy,
    name: str,
    runs: Mapping[int, CollectedRun],
    seeds: Sequence[int],
    comparisons: Sequence[MetricComparison],
    agreed: AgreementByVariant,
    *,
    rate: float | None,
) -> VariantRecord:
    finished = [runs[seed] for seed in seeds if runs[seed].state == "finished"]
    outcomes = [collected.record["outcome"] for collected in finished]
    agreement = agreed.variants.get(name)
    profile = prepared.profiles[name]
    return VariantRecord(
        name=name,
        settings=prepared.study.variant(name).changes,
        is_baseline=name == prepared.study.baseline,
        scores={one.metric.name: one.score_of(name) for one in comparisons},
        parameters=profile.parameters,
        flops=_mean([float(outcome["flops"]) for outcome in outcomes]),
        seconds=_mean([float(outcome["seconds"]) for outcome in outcomes]),
        peak_bytes=profile.peak_bytes,
        shared_initialisation=profile.shared_initialisation,
        learning_rate=rate,
        agreement=agreement.mean if agreement else None,
        agreement_low=agreement.low if agreement else None,
        agreement_high=agreement.high if agreement else None,
        problems="; ".join(
            f"seed {seed} failed: {runs[seed].reason}"
            for seed in runs
            if runs[seed].state == "failed"
        ),
    )


def _mean(values: Sequence[float]) -> float | None:
    """The mean of finite values; None if one is not finite, or there are none."""
    return float(np.mean(values)) if values and np.isfinite(values).all() else None


def _missing(runs: Sequence[CollectedRun]) -> dict[str, tuple[int, ...]]:
    """Variant → the seeds with a run that has neither finished nor failed."""
    found: dict[str, dict[int, None]] = {}
    for collected in runs:
        if collected.state == "missing":
            found.setdefault(collected.run.variant, {})[collected.run.seed] = None
    return {variant: tuple(seeds) for variant, seeds in found.items()}


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
        evaluations=len(curve),
        evaluation_seconds=float(outcome.get("evaluation_seconds", 0.0)),
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
    executor: Executor | None = None,
    on_event: Callable[[Event], None] = lambda _: None,
    on_start: Callable[[Sequence[Job]], None] = lambda _: None,
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Train the missing runs, and compare the variants.

    With several learning rates, those of all variants are tuned first. `on_start` receives the jobs of the
    tuning, then those of the comparison, `on_event` every event of the executor, `log` a line of text about
    each stage.
    """
    # Absolute: on a cluster, processes may have another working directory.
    study_folder = StudyFolder(folder.absolute())
    prepared = prepare_study(study, name=name or folder.name, command=command, log=log)
    study_folder.make()
    prepared.validate_resume(study_folder)
    prepared.write(study_folder)
    executor = executor or LocalExecutor()
    stages = {"tuning": "tuning the learning rates", "compared": "training the compared runs"}
    for stage, line in stages.items():
        runs: list[CollectedRun] = getattr(
            collect_runs(prepared, study_folder, is_resumed=True), stage
        )
        if runs:
            log(line)
            jobs = prepared.jobs(study_folder, (collected.run for collected in runs))
            on_start(jobs)
            with closing(executor.run(jobs)) as events:
                for event in events:
                    on_event(event)
    return write_record(prepared, study_folder, log=log)


def write_record(
    prepared: PreparedStudy, folder: StudyFolder, *, log: Callable[[str], None] = lambda _: None
) -> StudyRecord:
    """Collect the runs that exist, and write record.json."""
    record = collect(prepared, folder, log=log)
    folder.write_text(folder.record, record.as_json())
    folder.set_finished(one.key for one in record.runs if one.state == "finished")
    return record
