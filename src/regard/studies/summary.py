"""The summary of a study: headline, budget, tuning, reproducibility, disagreements between variants."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from regard.core.errors import RegardError
from regard.core.formatting import (
    counted,
    integer_text,
    number_text,
    numbered,
    rate_text,
    ratio_text,
)
from regard.core.records.study import Disagreement
from regard.runs.folder import Predictions
from regard.runs.spec import RunSpec
from regard.studies.run_selection import CollectedRun
from regard.studies.spec import StudySpec
from regard.studies.statistics.bootstrap import ItemComparison, ItemPair
from regard.studies.statistics.paired import MIN_SEEDS, SeedComparison, SeedPair
from regard.tasks.metrics import Metric

MAX_LISTED = 6
MAX_DISAGREEMENTS = 12
RARELY_CORRECT = 0.1
"""Below this fraction of correct predictions, disagreements are selected by item score."""


# Ratios of training FLOPs within this factor are not mentioned.
SIMILAR_FLOPS = 1.1
TIE = 1e-12
"""Relative differences below this are rounding errors."""

Flops = Mapping[str, float | None]
"""Variant → the FLOPs of one training run, if known."""


def headline(
    over_seeds: SeedComparison,
    on_items: ItemComparison | None,
    *,
    metric: Metric,
    split: str,
    flops: Flops,
    has_same_data: bool = True,
) -> tuple[str, ...]:
    """The result in a few sentences: the methods over seeds, then these trained models on items.

    Without `has_same_data`, the runs were evaluated on different data, and there is no result.
    """
    excluded = [
        f"Excluded from all comparisons: {variant.variant} ({variant.reason})."
        for variant in over_seeds.excluded
    ]
    if not over_seeds.variants:
        return ("No variant has a score with every seed.", *excluded)
    means = {variant.variant: variant.mean for variant in over_seeds.variants}
    leaders = _leaders(means, lower_is_better=over_seeds.lower_is_better)
    best = means[leaders[0]]
    value = f"{metric.format(best)} {metric.unit}".strip()
    score = f"on {split}, {value}"
    if over_seeds.seeds:
        score += f", over {counted(len(over_seeds.seeds), 'seed')}"
    if len(means) == 1:
        return (
            f"{leaders[0]} has a mean {metric.name} {score}; there is no other variant to compare with.",
            *excluded,
        )
    if not has_same_data:
        return (
            f"The runs were evaluated on different {split} data, so neither methods nor trained models "
            "are compared.",
            *excluded,
        )
    order = "lowest" if over_seeds.lower_is_better else "highest"
    alike = [name for name, mean in means.items() if metric.format(mean) == metric.format(best)]
    if len(alike) == 1:
        sentences = [f"{leaders[0]} has the {order} mean {metric.name} {score}."]
    else:
        digits = "" if alike == leaders else f" to {metric.digits} decimals"
        rank = "" if len(alike) == len(means) else f", the {order} of all variants"
        sentences = [f"{_listed(alike)} have the same mean {metric.name}{digits} {score}{rank}."]
    if not over_seeds.seeds:
        sentences.append("No seed is common to all variants, so methods are not compared.")
    elif len(over_seeds.seeds) < MIN_SEEDS:
        sentences.append(f"Too few seeds: a comparison of methods needs {MIN_SEEDS}.")
    else:
        comparison = _comparison(leaders, over_seeds.pairs, flops, every="with every seed")
        sentences.append(f"Methods, over seeds: {comparison}")
    if on_items is not None and on_items.pairs:
        scores = {variant.variant: variant.score for variant in on_items.variants}
        best_models = _leaders(scores, lower_is_better=over_seeds.lower_is_better)
        comparison = _comparison(best_models, on_items.pairs, flops, every="on every item")
        sentences.append(f"Trained models, on items like these {on_items.items:,}: {comparison}")
    return (*sentences, *excluded)


def _leaders(scores: Mapping[str, float], *, lower_is_better: bool) -> list[str]:
    """The variants with the best score: several if it is the same."""
    best = (min if lower_is_better else max)(scores.values())
    return [name for name, score in scores.items() if abs(score - best) <= TIE * abs(best)]


def _comparison(
    leaders: Sequence[str],
    pairs: Sequence[SeedPair] | Sequence[ItemPair],
    flops: Flops,
    *,
    every: str,
) -> str:
    """The leaders against each other, then against the others, leaders with equal verdicts together."""
    clauses = []
    if len(leaders) > 1:
        among = {pair.verdict for pair in pairs if {pair.first, pair.second} <= {*leaders}}
        same = among == {"same scores"}
        text = f"have the same score {every}" if same else f"against each other {INCONCLUSIVE}"
        clauses.append(f"{_listed(leaders)} {text}")
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for leader in leaders:
        verdicts = _verdicts_on(leader, pairs)
        better = tuple(other for other, verdict in verdicts.items() if verdict == "better")
        rest = tuple(other for other in verdicts if other not in (*better, *leaders))
        alike.setdefault((better, rest), []).append(leader)
    for (better, rest), names in alike.items():
        who = f"{_listed(names)} {'is' if len(names) == 1 else 'are'}"
        if better:
            factor = _flops_clause(names, better, flops)
            clauses.append(f"{who} better than {_listed(better)}{factor}")
            clauses += [f"inconclusive against {_listed(rest)}"] if rest else []
        elif rest:
            clauses.append(f"{_listed(names)} against {_listed(rest)} {INCONCLUSIVE}")
    return f"{'; '.join(clauses)}."


INCONCLUSIVE = "is inconclusive, no difference detected"


def _verdicts_on(variant: str, pairs: Sequence[SeedPair] | Sequence[ItemPair]) -> dict[str, str]:
    """Other variant → the verdict on `variant` against it."""
    opposite = {"better": "worse", "worse": "better"}
    found: dict[str, str] = {}
    for pair in pairs:
        if pair.first == variant:
            found[pair.second] = pair.verdict
        elif pair.second == variant:
            found[pair.first] = opposite.get(pair.verdict, pair.verdict)
    return found


def flops_ratio(flops: Flops, first: str, second: str) -> float | None:
    """The training FLOPs of the first variant over those of the second; None if unknown."""
    of_first, of_second = flops.get(first), flops.get(second)
    return of_first / of_second if of_first and of_second else None


def _flops_clause(names: Sequence[str], others: Sequence[str], flops: Flops) -> str:
    """The ratio of FLOPs of better variants to the others, or its range; empty if they are similar."""
    found = [flops_ratio(flops, name, other) for name in names for other in others]
    ratios = [ratio for ratio in found if ratio is not None]
    if all(1 / SIMILAR_FLOPS <= ratio <= SIMILAR_FLOPS for ratio in ratios):
        return ""
    ends = dict.fromkeys(map(ratio_text, (min(ratios), max(ratios))))
    return f", with {' to '.join(ends)} times the training FLOPs"


def unfinished_headline(
    missing: Mapping[str, Sequence[int]],
    *,
    ended: int,
    runs: int,
    seeds: Sequence[int],
    command: str,
) -> tuple[str, ...]:
    """What is missing, of which seeds scores are shown, and how to resume."""
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for variant, of_variant in missing.items():
        by_seeds.setdefault(tuple(of_variant), []).append(variant)
    lacking = "; ".join(
        f"{', '.join(variants)} ({numbered('seed', of_variants)})"
        for of_variants, variants in by_seeds.items()
    )
    of_all = f"{ended} of {counted(runs, 'run')} have ended"
    return (
        f"The study is not finished: {of_all}, so there is no verdict.",
        f"Missing: {lacking}.",
        *([f"Scores are descriptive, of {numbered('seed', seeds)} only."] if seeds else []),
        f"Resume with: {command}" if command else "Run the same study again to resume it.",
    )


def _listed(names: Sequence[str]) -> str:
    """Join names; a long list is truncated.

    >>> _listed(["dot", "additive", "location"])
    'dot, additive and location'
    """
    if len(names) > MAX_LISTED:
        return f"{', '.join(names[:MAX_LISTED])} and {len(names) - MAX_LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def describe_budget(specs: Sequence[RunSpec], flops: Flops, evaluations: Sequence[int]) -> str:
    """The budget of every run, all budgets if variants differ; unequal FLOPs; evaluations of the runs."""
    budgets = list(dict.fromkeys(describe_limits(spec) for spec in specs))
    text = f"Every run has {budgets[0]}."
    if len(budgets) > 1:
        text = f"The variants have different budgets: {'; '.join(budgets)}."
    known = {name: value for name, value in flops.items() if value}
    least, most = (which(known, key=known.__getitem__, default="") for which in (min, max))
    ratio = flops_ratio(known, most, least)
    if ratio is not None and ratio > SIMILAR_FLOPS:
        limits = [name for name, limit in specs[0].training.budget._asdict().items() if limit]
        equal = f"Equal {' and '.join(limits)}, not equal" if len(budgets) == 1 else "Not equal"
        text += f" {equal} FLOPs: 1.0–{ratio_text(ratio)} times."
    if evaluations:
        ends = " to ".join(dict.fromkeys(map(str, (min(evaluations), max(evaluations)))))
        text += f" The best checkpoint is of {ends} evaluation{'' if ends == '1' else 's'}."
    return text


def describe_limits(spec: RunSpec) -> str:
    """The budget of a run, such as "2,000 steps or 60 seconds", and that of its pre-training."""
    limits = [
        f"{number_text(limit, digits=4) if isinstance(limit, float) else integer_text(limit)} {name}"
        for name, limit in spec.training.budget._asdict().items()
        if limit is not None
    ]
    before = spec.pretraining
    after = "" if before is None else f" after {describe_limits(before)} of pre-training"
    return " or ".join(limits) + after


def describe_tuning(study: StudySpec, *, is_tuned: bool) -> str:
    """The learning rates that were tried for each variant, or that are to be tried."""
    if study.tuning_seeds:
        listed = ", ".join(rate_text(rate) for rate in study.learning_rates)
        seeds = f"other seeds than those compared ({len(study.tuning_seeds)})"
        if not is_tuned:
            return f"The learning rates ({listed}) are not tuned yet, with {seeds}."
        return (
            f"The learning rate of every variant was tuned ({listed}) with {seeds}; the one with the best "
            "mean on validation is selected."
        )
    rates = {
        study.run_spec(
            variant, seed=study.seeds[0], learning_rate=study.first_learning_rate
        ).training.learning_rate
        for variant in study.variants
    }
    listed = ", ".join(rate_text(rate) for rate in sorted(rates))
    which = (
        f"the learning rate {listed}" if len(rates) == 1 else f"its own learning rate ({listed})"
    )
    return f"Nothing was tuned: every variant has {which}."


def reproducibility(
    runs: Sequence[CollectedRun], *, command: str, seeds: Sequence[int], machine: str
) -> dict[str, str]:
    """What is needed to reproduce the comparison; values that differ between runs are all listed."""
    records = [collected.record for collected in runs if collected.state == "finished"]
    facts = {"command": command, "seeds": ", ".join(map(str, seeds))}
    if machine:
        facts["machine"] = machine
    for name in ("versions", "data", "signatures"):
        tables = (record.get(name, {}) for record in records)
        values = dict.fromkeys(
            describe_data(table)
            if name == "data"
            else ", ".join(f"{key} {value}" for key, value in table.items())
            for table in tables
        )
        if any(values):
            facts[name] = "; ".join(values)
    if records:
        threads = sorted({record["threads"] for record in records})
        facts["threads"] = f"{', '.join(map(str, threads))} per run"
    return facts


def describe_data(data: Mapping[str, Any]) -> str:
    """Sizes and fingerprints of the data of a run, and of its pre-training."""
    found = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in data.items()
        if name.endswith(("_fingerprint", "_items", "_examples")) or name.startswith("train_")
    ]
    if before := data.get("pretraining"):
        found.append(f"pre-training: {describe_data(before)}")
    return ", ".join(found)


def disagreements(
    predictions: Mapping[str, Predictions],
    *,
    metric: Metric | None,
    count: int = MAX_DISAGREEMENTS,
    seed: int = 0,
) -> tuple[Disagreement, ...]:
    """At most `count` items on which the predictions of variants disagree, in the order of the split.

    Selected by a seed. If predictions are often correct, items that some variants get right and others
    wrong, balanced so that each variant is alone right on some and alone wrong on others. If they are
    rarely correct, as in translation, the items with the largest spread of the item-wise `metric`.
    """
    if len(predictions) < 2:
        return ()
    first = next(iter(predictions.values()))
    _validate_same_items(predictions)
    correct = np.stack([is_correct(of_variant) for of_variant in predictions.values()], axis=1)
    order = list(range(len(first)))
    random.Random(seed).shuffle(order)
    if metric is not None and correct.size and correct.mean() < RARELY_CORRECT:
        chosen = _largest_spread(predictions, metric, order, count)
    else:
        chosen = _balanced(correct, order, count)
    return tuple(
        Disagreement(
            input=first.inputs[item],
            references=shown_references(first, item),
            predictions={
                variant: output_text(of_variant.predictions[item])
                for variant, of_variant in predictions.items()
            },
            correct=tuple(
                variant for variant, hit in zip(predictions, correct[item], strict=True) if hit
            )
            if can_be_correct(first)
            else None,
        )
        for item in sorted(chosen)
    )


def _validate_same_items(predictions: Mapping[str, Predictions]) -> None:
    first_variant, first = next(iter(predictions.items()))
    for variant, of_variant in predictions.items():
        if (of_variant.inputs, of_variant.references) != (first.inputs, first.references):
            raise RegardError(
                f"The variants '{first_variant}' and '{variant}' were evaluated on different items. "
                "Evaluate all variants on the same data."
            )


def can_be_correct(predictions: Predictions) -> bool:
    """Whether predictions are right or wrong: not numbers, such as the likelihood of a text."""
    return not any(isinstance(each, float) for each in predictions.predictions)


def shown_references(predictions: Predictions, item: int) -> tuple[str, ...]:
    """The references of an item as text; none of a text that is its own reference."""
    found = tuple(map(output_text, choices(predictions.references[item])))
    return () if found == (predictions.inputs[item],) and not can_be_correct(predictions) else found


def is_correct(predictions: Predictions) -> Bool[np.ndarray, " items"]:
    """Whether each prediction is one of its references, up to white space."""
    return np.array(
        [
            output_text(prediction).split()
            in [output_text(choice).split() for choice in choices(reference)]
            for prediction, reference in zip(
                predictions.predictions, predictions.references, strict=True
            )
        ],
        dtype=bool,
    )


def choices(reference: Any) -> tuple[Any, ...]:
    """The alternative references of an item."""
    return reference if isinstance(reference, tuple) else (reference,)


def output_text(output: Any) -> str:
    """A prediction or reference as text: numbers to four digits, tokens joined by spaces."""
    if isinstance(output, float):
        return number_text(output, digits=4)
    return " ".join(map(str, output)) if isinstance(output, list) else str(output)


def _balanced(
    correct: Bool[np.ndarray, "items variants"], order: list[int], count: int
) -> list[int]:
    """Items in turn from every kind of disagreement."""
    kinds: dict[tuple[str, int], list[int]] = {}
    variants = correct.shape[1]
    for item in order:
        number = int(correct[item].sum())
        if number in (0, variants):
            continue
        kind = ("several", 0)
        if number == 1:
            kind = ("alone right", int(correct[item].argmax()))
        elif number == variants - 1:
            kind = ("alone wrong", int(correct[item].argmin()))
        kinds.setdefault(kind, []).append(item)
    # "alone right" of every variant before "alone wrong" of any, and the rest last.
    interleaved = _interleave([kinds[kind] for kind in sorted(kinds)])
    return [item for item, _ in zip(interleaved, range(count), strict=False)]


def _interleave(groups: list[list[int]]) -> Iterator[int]:
    for turn in range(max(map(len, groups), default=0)):
        yield from (group[turn] for group in groups if turn < len(group))


def _largest_spread(
    predictions: Mapping[str, Predictions],
    metric: Metric,
    order: list[int],
    count: int,
) -> list[int]:
    """The items with the largest spread of scores; ties in the given order."""
    scores: Float[np.ndarray, "items variants"] = np.stack(
        [
            metric.score(metric.table(of_variant.predictions, of_variant.references))
            for of_variant in predictions.values()
        ],
        axis=1,
    )
    # An empty reference has no error rate, and so no spread.
    spread = np.nan_to_num(np.ptp(scores, axis=1))
    widest = sorted(order, key=lambda item: -spread[item])
    return [item for item in widest[:count] if spread[item] > 0]
