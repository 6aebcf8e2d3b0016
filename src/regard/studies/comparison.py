"""Comparing variants by their runs: scores over seeds and on items, curves, examples; a `StudyRecord`.

Studies and comparisons of existing runs use the same code, so that both have the same statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from regard.core.errors import RegardError
from regard.core.records.study import (
    AttentionExample,
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
from regard.studies.attention import VariantAgreement, agreement_by_variant, attention_examples
from regard.studies.folder import StudyFolder
from regard.studies.run_selection import (
    CollectedRun,
    common_seeds,
    select_runs,
    study_metrics,
    total_cost,
)
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
    choices,
    describe_budget,
    disagreements,
    flops_ratio,
    headline,
    output_text,
    reproducibility,
    unfinished_headline,
)
from regard.tasks import task_class
from regard.tasks.metrics import Metric

SelectedRuns = Mapping[str, Mapping[int, CollectedRun]]


@dataclass(frozen=True, kw_only=True)
class VariantFacts:
    """What is known of a variant besides the results of its runs; see `VariantRecord`."""

    settings: dict[str, Any]
    parameters: int
    peak_bytes: int
    shared_initialisation: float | None = None
    learning_rate: float | None = None


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

    def not_compared(self) -> MetricComparison:
        """Every variant alone."""
        return replace(self, over_seeds=replace(self.over_seeds, pairs=()), on_items=None)

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


def compare_variants(
    compared: Sequence[CollectedRun],
    facts: Mapping[str, VariantFacts],
    *,
    name: str,
    baseline: str,
    question: str = "",
    tuning_runs: Sequence[CollectedRun] = (),
    tuning: str = "",
    matched: str = "",
    command: str = "",
    machine: str = "",
    sizes: Mapping[str, Any] | None = None,
    folder: StudyFolder | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Compare the variants of `facts` by one run per variant and seed.

    Before all of these runs have ended, they are described only. Over seeds, variants are compared on the
    seeds that all of them have; without any, every variant has its own, and methods are not compared. On
    items they are compared if all runs have the same ones. If the data of the evaluation split differs,
    nothing is compared. `sizes` has the sizes of the splits, for a study without a finished run; `folder`
    caches what attention agrees with.
    """
    runs, missing = [*tuning_runs, *compared], _missing(compared)
    spec = compared[0].run.spec
    split: Any = _evaluation_split(runs, sizes or {})
    primary, *others = study_metrics(task_class(spec.task), spec.task_options, runs, split)
    metric = primary.name
    records = [collected.record for collected in compared if collected.state == "finished"]
    has_same_data = len({each["data"].get(f"{split}_fingerprint") for each in records}) < 2
    selected = select_runs(compared)
    common = common_seeds(selected)
    all_seeds = list(dict.fromkeys(seed for each in selected.values() for seed in each))
    seeds = common or tuple(sorted(all_seeds))
    chosen = {
        variant: {seed: of_variant[seed] for seed in seeds if seed in of_variant}
        for variant, of_variant in selected.items()
    }
    log("comparing the variants")
    names = [
        variant
        for variant, of_variant in chosen.items()
        if all(math.isfinite(run.score(split, metric)) for run in of_variant.values())
    ]
    predictions = {
        variant: [read_predictions(run.folder, split) for run in chosen[variant].values()]
        for variant in names
    }
    comparisons = [
        _compare(
            one,
            chosen,
            predictions if has_same_data and not missing else {},
            is_paired=bool(common),
            split=split,
            log=log,
        )
        for one in (primary, *others)
    ]
    if missing:
        comparisons = [one.descriptive() for one in comparisons]
    elif not has_same_data:
        comparisons = [one.not_compared() for one in comparisons]
    log("comparing attention with known alignments")
    agreed = agreement_by_variant(
        {variant: list(of_variant.values()) for variant, of_variant in chosen.items()},
        folder,
        split=split,
    )
    variants = tuple(
        _variant(
            variant,
            facts[variant],
            of_variant,
            seeds,
            comparisons,
            agreed.variants.get(variant),
            is_baseline=variant == baseline,
        )
        for variant, of_variant in selected.items()
    )
    flops = {variant.name: variant.flops for variant in variants}
    run_records = tuple(
        _run(one, metric, split, selected=_is_selected(one, seeds if not missing else None))
        for one in runs
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
            command=command,
        )
    else:
        over_seeds, on_items = comparisons[0].over_seeds, comparisons[0].on_items
        summary = headline(
            over_seeds,
            on_items,
            metric=primary,
            split=split,
            flops=flops,
            has_same_data=has_same_data,
        )
    first_runs = {variant: next(iter(chosen[variant].values())) for variant in names}
    first_predictions = {variant: of_variant[0] for variant, of_variant in predictions.items()}
    example = next(iter(first_predictions.values()), None)
    has_same_items = all(
        (one.inputs, one.references) == (example.inputs, example.references)
        for one in first_predictions.values()
        if example is not None
    )
    examples, note = tuple[AttentionExample, ...](), ""
    try:
        examples = attention_examples(
            {variant: load(collected.folder.path) for variant, collected in first_runs.items()},
            example.inputs if example else (),
            references={
                name: output_text(choices(reference)[0])
                for name, reference in zip(example.inputs, example.references, strict=True)
            }
            if example
            else {},
            split=split,
        )
    except RegardError as error:  # as where the recordings are gone
        note = f"Not available: {error}"
    return StudyRecord(
        name=name,
        question=question or f"Which of {len(facts)} variants is best on {spec.task}?",
        headline=summary,
        task=spec.task,
        split=split,
        items=len(example) if example else (sizes or {}).get(f"{split}_items", 0),
        metrics=tuple(metric_record(one.metric) for one in comparisons),
        seeds=seeds,
        budget=describe_budget(
            [next(iter(of_variant.values())).run.spec for of_variant in chosen.values()],
            flops,
            [run.evaluations for run in run_records if run.selected and run.state == "finished"],
        ),
        tuning=tuning,
        matched=matched,
        variants=variants,
        runs=run_records,
        verdicts=tuple(verdict for one in comparisons for verdict in one.verdicts(flops)),
        disagreements=disagreements(
            first_predictions,
            metric=next((one for one in (primary, *others) if one.is_itemwise), None),
        )
        if has_same_items
        else (),
        attention_examples=examples,
        attention_note=note,
        agreement_source=agreed.source,
        reproducibility=reproducibility(runs, command=command, seeds=all_seeds, machine=machine),
        pairing=pairing({name: _scores(chosen[name], split, metric) for name in names})
        if not missing and has_same_data and len(names) > 1 and len(common) >= MIN_PAIRING_SEEDS
        else None,
        missing=missing,
    )


def _is_selected(collected: CollectedRun, seeds: Sequence[int] | None) -> bool:
    """Whether the run is compared; `seeds` are all compared ones, None for those that are to be."""
    return not collected.run.is_tuning and (seeds is None or collected.run.seed in seeds)


def _evaluation_split(runs: Sequence[CollectedRun], sizes: Mapping[str, Any]) -> str:
    """The test split, unless the data has none; `sizes` are those of the splits."""
    finished = [collected for collected in runs if collected.state == "finished"]
    has_test = all("test" in collected.record["scores"] for collected in finished)
    return "test" if has_test and (finished or sizes.get("test_items")) else "validation"


def metric_record(metric: Metric) -> MetricRecord:
    """What records keep of a metric."""
    return MetricRecord(
        **{field.name: getattr(metric, field.name) for field in fields(MetricRecord)}
    )


def _compare(
    metric: Metric,
    chosen: SelectedRuns,
    predictions: Mapping[str, Sequence[Predictions]],
    *,
    is_paired: bool,
    split: str,
    log: Callable[[str], None],
) -> MetricComparison:
    """Compare the variants by one metric."""
    over_seeds = compare_over_seeds(
        {name: _scores(runs, split, metric.name) for name, runs in chosen.items()},
        lower_is_better=metric.lower_is_better,
        is_paired=is_paired,
    )
    on_items = None
    try:
        on_items = _on_items(metric, predictions)
    except RegardError as error:
        # The other comparisons of a trained study stay valid.
        log(f"{metric.name} is not compared over items: {error}")
    return MetricComparison(metric=metric, over_seeds=over_seeds, on_items=on_items)


def _scores(runs: Mapping[int, CollectedRun], split: str, metric: str) -> dict[int, float]:
    return {seed: run.score(split, metric) for seed, run in runs.items()}


def _on_items(
    metric: Metric, predictions: Mapping[str, Sequence[Predictions]]
) -> ItemComparison | None:
    """Compare on items, with statistics summed over seeds: about these models together."""
    if not metric.is_itemwise or not predictions:
        return None
    all_runs = [one for of_variant in predictions.values() for one in of_variant]
    items = [(one.inputs, one.references) for one in all_runs]
    if any(one != items[0] for one in items):
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
    name: str,
    facts: VariantFacts,
    runs: Mapping[int, CollectedRun],
    seeds: Sequence[int],
    comparisons: Sequence[MetricComparison],
    agreement: VariantAgreement | None,
    *,
    is_baseline: bool,
) -> VariantRecord:
    finished = [run for seed, run in runs.items() if seed in seeds and run.state == "finished"]
    records = [collected.record for collected in finished]
    return VariantRecord(
        name=name,
        settings=facts.settings,
        is_baseline=is_baseline,
        scores={one.metric.name: one.score_of(name) for one in comparisons},
        parameters=facts.parameters,
        flops=_mean([float(total_cost(record, "flops")) for record in records]),
        seconds=_mean([float(total_cost(record, "seconds")) for record in records]),
        peak_bytes=facts.peak_bytes,
        shared_initialisation=facts.shared_initialisation,
        learning_rate=facts.learning_rate,
        agreement=agreement.mean if agreement else None,
        agreement_low=agreement.low if agreement else None,
        agreement_high=agreement.high if agreement else None,
        problems="; ".join(
            f"seed {seed} failed: {run.reason}"
            for seed, run in runs.items()
            if run.state == "failed"
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
    before = {"tokens": 0, "flops": 0, "seconds": 0.0, **collected.record.get("pretraining", {})}
    return StudyRunRecord(
        variant=collected.run.variant,
        seed=collected.run.seed,
        learning_rate=collected.run.learning_rate,
        key=collected.run.key,
        state=collected.state,
        selected=selected,
        reason=collected.reason,
        scores=finite_scores(scores.get(split, {})),
        validation_scores=finite_scores(scores.get("validation", {})),
        steps=int(outcome.get("steps", 0)),
        seconds=float(total_cost(collected.record, "seconds")),
        curve=tuple(
            CurvePoint(
                step=point.step,
                tokens=before["tokens"] + point.tokens,
                flops=float(before["flops"] + point.flops),
                seconds=before["seconds"] + point.seconds,
                score=score,
            )
            for point in curve
            if (score := point.scores.get(metric)) is not None and math.isfinite(score)
        ),
        evaluations=len(curve),
        evaluation_seconds=float(total_cost(collected.record, "evaluation_seconds")),
        folder=collected.folder.path.name,
    )


def finite_scores(scores: Mapping[str, float | None]) -> dict[str, float]:
    """The scores without those that are missing or not finite."""
    return {
        name: score for name, score in scores.items() if score is not None and math.isfinite(score)
    }
