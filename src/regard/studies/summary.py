"""The summary of a study: headline, budget, tuning, reproducibility, disagreements between variants."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from regard.core.errors import RegardError
from regard.core.records.study import Disagreement
from regard.runs.folder import Predictions
from regard.runs.spec import RunSpec
from regard.studies.prepare import PreparedStudy
from regard.studies.run_selection import CollectedRun
from regard.studies.spec import StudySpec
from regard.studies.statistics.bootstrap import ItemComparison, ItemPair
from regard.studies.statistics.paired import MIN_SEEDS, SeedComparison, SeedPair
from regard.tasks.metrics import Metric

MAX_LISTED = 6
MAX_DISAGREEMENTS = 12
RARELY_CORRECT = 0.1
"""Below this fraction of correct predictions, disagreements are selected by item score."""


def headline(
    over_seeds: SeedComparison, on_items: ItemComparison | None, *, metric: Metric, split: str
) -> tuple[str, ...]:
    """The result in a few sentences: the methods over seeds, then these trained models on items."""
    excluded = [
        f"Excluded from all comparisons: {variant.variant} ({variant.reason})."
        for variant in over_seeds.excluded
    ]
    if not over_seeds.variants:
        return ("No variant is finished yet.",)
    sign = 1 if over_seeds.lower_is_better else -1
    ordered = sorted(over_seeds.variants, key=lambda variant: sign * variant.mean)
    best = ordered[0]
    value = f"{metric.format(best.mean)} {metric.unit}".strip()
    score = f"on {split}, {value}, over {_counted(len(over_seeds.seeds), 'seed')}"
    if len(ordered) == 1:
        return (
            f"{best.variant} has a mean {metric.name} {score}; there is no other variant to compare with.",
            *excluded,
        )
    order = "lowest" if sign == 1 else "highest"
    sentences = [f"{best.variant} has the {order} mean {metric.name} {score}."]
    if len(over_seeds.seeds) < MIN_SEEDS:
        sentences.append(f"Too few seeds: a comparison of methods needs {MIN_SEEDS}.")
    else:
        verdicts = _verdicts_on(best.variant, over_seeds.pairs)
        sentences.append(f"Methods, over seeds: {_comparison(best.variant, verdicts)}")
    if on_items is not None and on_items.pairs:
        best_models = min(on_items.variants, key=lambda variant: sign * variant.score).variant
        comparison = _comparison(best_models, _verdicts_on(best_models, on_items.pairs))
        sentences.append(f"Trained models, on items like these {on_items.items:,}: {comparison}")
    return (*sentences, *excluded)


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


def _comparison(variant: str, verdicts: dict[str, str]) -> str:
    better = [other for other, verdict in verdicts.items() if verdict == "better"]
    rest = [other for other in verdicts if other not in better]
    if not better:
        return f"{variant} against {_listed(rest)} is inconclusive, no difference detected."
    text = f"{variant} is better than {_listed(better)}"
    return f"{text}; inconclusive against {_listed(rest)}." if rest else f"{text}."


def _listed(names: Sequence[str]) -> str:
    """Join names; a long list is truncated.

    >>> _listed(["dot", "additive", "location"])
    'dot, additive and location'
    """
    if len(names) > MAX_LISTED:
        return f"{', '.join(names[:MAX_LISTED])} and {len(names) - MAX_LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def describe_budget(specs: Sequence[RunSpec]) -> str:
    """The budget of every run; all budgets if variants differ."""
    budgets = list(dict.fromkeys(_limits(spec) for spec in specs))
    if len(budgets) == 1:
        return f"Every run had {budgets[0]}."
    return f"The variants had different budgets: {'; '.join(budgets)}."


def _limits(spec: RunSpec) -> str:
    limits = [
        f"{limit:,.4g} {name}" if isinstance(limit, float) else f"{limit:,} {name}"
        for name, limit in spec.training.budget._asdict().items()
        if limit is not None
    ]
    return " or ".join(limits)


def describe_tuning(study: StudySpec) -> str:
    """The learning rates that were tried for each variant."""
    if study.learning_rates:
        listed = ", ".join(f"{rate:g}" for rate in study.learning_rates)
        return (
            f"The learning rate of every variant was tuned ({listed}, with every seed); the one with the "
            "best mean on validation is selected."
        )
    rates = {
        study.run_spec(variant, seed=study.seeds[0]).training.learning_rate
        for variant in study.variants
    }
    listed = ", ".join(f"{rate:g}" for rate in sorted(rates))
    which = (
        f"the learning rate {listed}" if len(rates) == 1 else f"its own learning rate ({listed})"
    )
    return f"Nothing was tuned: every variant has {which}."


def reproducibility(
    prepared: PreparedStudy, runs: Sequence[CollectedRun], seeds: Sequence[int]
) -> dict[str, str]:
    """What is needed to reproduce the study; values that differ between runs are all listed."""
    records = [collected.record for collected in runs if collected.state == "finished"]
    facts = {
        "command": prepared.command,
        "seeds": ", ".join(map(str, seeds)),
        "machine": prepared.machine,
    }
    for name in ("versions", "data", "signatures"):
        values = dict.fromkeys(
            ", ".join(f"{key} {value}" for key, value in record.get(name, {}).items())
            for record in records
        )
        if any(values):
            facts[name] = "; ".join(values)
    if records:
        threads = sorted({record["threads"] for record in records})
        facts["threads"] = f"{', '.join(map(str, threads))} per run"
    return facts


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
    correct = np.stack([_is_correct(of_variant) for of_variant in predictions.values()], axis=1)
    order = list(range(len(first)))
    random.Random(seed).shuffle(order)
    if metric is not None and correct.size and correct.mean() < RARELY_CORRECT:
        chosen = _largest_spread(predictions, metric, order, count)
    else:
        chosen = _balanced(correct, order, count)
    return tuple(
        Disagreement(
            input=first.inputs[item],
            references=tuple(map(_text, _choices(first.references[item]))),
            predictions={
                variant: _text(of_variant.predictions[item])
                for variant, of_variant in predictions.items()
            },
            correct=tuple(
                variant
                for variant, is_correct in zip(predictions, correct[item], strict=True)
                if is_correct
            ),
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


def _is_correct(predictions: Predictions) -> Bool[np.ndarray, " items"]:
    """Whether each prediction is one of its references, up to white space."""
    return np.array(
        [
            _text(prediction).split() in [_text(choice).split() for choice in _choices(reference)]
            for prediction, reference in zip(
                predictions.predictions, predictions.references, strict=True
            )
        ],
        dtype=bool,
    )


def _choices(reference: Any) -> tuple[Any, ...]:
    return reference if isinstance(reference, tuple) else (reference,)


def _text(output: Any) -> str:
    """A prediction or reference as text: numbers to four digits, tokens joined by spaces."""
    if isinstance(output, float):
        return f"{output:.4g}"
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
