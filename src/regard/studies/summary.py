"""The verdict of a study in a few sentences, as its page begins."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float

from regard.core.errors import RegardError
from regard.core.records.study import Disagreement
from regard.runs.folder import Predictions
from regard.runs.spec import RunSpec
from regard.studies.prepare import PreparedStudy
from regard.studies.run_selection import KnownRun
from regard.studies.spec import StudySpec
from regard.studies.statistics.bootstrap import ItemComparison, ItemPair
from regard.studies.statistics.compare_seeds import FEWEST_SEEDS, SeedComparison, SeedPair
from regard.tasks.task import RunTask

MOST_LISTED = 6


def headline(
    over_seeds: SeedComparison, on_items: ItemComparison | None, *, metric: str, part: str
) -> tuple[str, ...]:
    """What may be said of the methods, then what may be said of these models."""
    left_out = [
        f"Left out of every comparison: {variant.variant} ({variant.reason})."
        for variant in over_seeds.excluded
    ]
    if not over_seeds.variants:
        return ("No variant has been run to its end, so there is nothing to say yet.",)
    sign = 1 if over_seeds.lower_is_better else -1
    ordered = sorted(over_seeds.variants, key=lambda variant: sign * variant.mean)
    best = ordered[0]
    over = f"on {part}, {best.mean:.2f}, over {_counted(len(over_seeds.seeds), 'seed')}"
    if len(ordered) == 1:
        return (
            f"{best.variant} has a mean {metric} {over}; there is nothing to compare it with.",
            *left_out,
        )
    told = [f"{best.variant} has the {'lowest' if sign == 1 else 'highest'} mean {metric} {over}."]
    if len(over_seeds.seeds) < FEWEST_SEEDS:
        told.append(
            f"That is true of these runs only: a claim about the methods takes {FEWEST_SEEDS} seeds."
        )
    else:
        told.append(
            _split(
                best.variant, _against(best.variant, over_seeds.pairs), "over seeds", "The method"
            )
        )
    if on_items is not None and on_items.pairs:
        leading = min(on_items.variants, key=lambda variant: sign * variant.score).variant
        told.append(
            _split(
                leading,
                _against(leading, on_items.pairs),
                f"on items like these {on_items.items:,}",
                "Of these trained models, those of",
            )
        )
    return (*told, *left_out)


def _against(variant: str, pairs: Sequence[SeedPair] | Sequence[ItemPair]) -> dict[str, str]:
    """Other variant → the verdict on `variant` against it."""
    turned = {"better": "worse", "worse": "better"}
    found: dict[str, str] = {}
    for pair in pairs:
        if pair.first == variant:
            found[pair.second] = pair.verdict
        elif pair.second == variant:
            found[pair.first] = turned.get(pair.verdict, pair.verdict)
    return found


def _split(variant: str, against: dict[str, str], where: str, who: str) -> str:
    better = [other for other, verdict in against.items() if verdict == "better"]
    rest = [other for other in against if other not in better]
    verb = "are" if who.endswith("those of") else "is"
    parts = []
    if better:
        parts.append(f"{verb} better than {_listed(better)}")
    if rest:
        parts.append(f"cannot be told apart from {_listed(rest)}")
    return f"{who} {variant} {' and '.join(parts)} {where}."


def _listed(names: Sequence[str]) -> str:
    """Names in a row; a long row is cut short.

    >>> _listed(["dot", "additive", "location"])
    'dot, additive and location'
    """
    if len(names) > MOST_LISTED:
        return f"{', '.join(names[:MOST_LISTED])} and {len(names) - MOST_LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# What every variant of a study was given, in words, and what whoever repeats it needs to know.


def budget_words(specs: Sequence[RunSpec]) -> str:
    """What every run was given; where variants differ in it, all that there were."""
    told = list(dict.fromkeys(_limits(spec) for spec in specs))
    if len(told) == 1:
        return f"Every run had {told[0]}."
    return f"The variants had different budgets: {'; '.join(told)}."


def _limits(spec: RunSpec) -> str:
    given = [
        f"{limit:,.4g} {name}" if isinstance(limit, float) else f"{limit:,} {name}"
        for name, limit in spec.training.budget._asdict().items()
        if limit is not None
    ]
    return " or ".join(given)


def tries_words(study: StudySpec) -> str:
    """How often each variant could try, and with which learning rates."""
    if study.learning_rates:
        listed = ", ".join(f"{rate:g}" for rate in study.learning_rates)
        return (
            f"Every variant had {len(study.learning_rates)} tries with each seed, one for each learning rate "
            f"({listed}); the rate with the best mean on validation counts."
        )
    rates = {
        study.spec_of(variant, seed=study.seeds[0]).training.learning_rate
        for variant in study.variants
    }
    listed = ", ".join(f"{rate:g}" for rate in sorted(rates))
    which = f"the learning rate {listed}" if len(rates) == 1 else f"its learning rate ({listed})"
    return f"Every variant had one try, with {which}."


def repeating_facts(
    prepared: PreparedStudy, runs: Sequence[KnownRun], seeds: Sequence[int]
) -> dict[str, str]:
    """What whoever repeats the study needs; what differed between runs stands there more than once."""
    records = [known.record for known in runs if known.state == "finished"]
    facts = {
        "command": prepared.command,
        "seeds": ", ".join(map(str, seeds)),
        "machine": prepared.machine,
    }
    for name in ("versions", "data", "signatures"):
        told = dict.fromkeys(
            ", ".join(f"{key} {value}" for key, value in record.get(name, {}).items())
            for record in records
        )
        if any(told):
            facts[name] = "; ".join(told)
    if records:
        threads = sorted({record["threads"] for record in records})
        facts["threads"] = f"{', '.join(map(str, threads))} a run"
    return facts


# Items on which the variants of a study disagree, chosen by a seed and not by hand.
#
# Where outputs are often right as a whole, these are items that some variants get right and others
# wrong. Each variant is, where there are such items, alone right in some and alone wrong in others, so
# that none is shown from its best side only. Where hardly any output is right as a whole, as in
# translation, they are the items whose own scores lie farthest apart.


COUNT = 12
RARE = 0.1
"""The share of right outputs below which items are chosen by their scores."""


def disagreements(
    predictions: Mapping[str, Predictions],
    *,
    task: type[RunTask],
    metric: str,
    count: int = COUNT,
    seed: int = 0,
) -> tuple[Disagreement, ...]:
    """At most `count` items in the order of the part, from what each variant wrote for the same items.

    In place of a metric that cannot be taken item by item, such as the loss, the task's first that can is.
    """
    if len(predictions) < 2:
        return ()
    first = next(iter(predictions.values()))
    _require_same_items(predictions)
    right = np.stack([_right(of_variant) for of_variant in predictions.values()], axis=1)
    order = list(range(len(first)))
    random.Random(seed).shuffle(order)
    if right.size and right.mean() < RARE:
        chosen = _farthest_apart(predictions, task, metric, order, count)
    else:
        chosen = _balanced(right, order, count)
    return tuple(
        Disagreement(
            source=first.sources[item],
            answers=first.answers[item],
            predicted={
                variant: of_variant.predicted[item] for variant, of_variant in predictions.items()
            },
            right=tuple(
                variant
                for variant, is_right in zip(predictions, right[item], strict=True)
                if is_right
            ),
        )
        for item in sorted(chosen)
    )


def _require_same_items(predictions: Mapping[str, Predictions]) -> None:
    first_variant, first = next(iter(predictions.items()))
    for variant, of_variant in predictions.items():
        if (of_variant.sources, of_variant.answers) != (first.sources, first.answers):
            raise RegardError(
                f"The variants '{first_variant}' and '{variant}' were not scored on the same items, so they cannot be "
                "compared item by item. Score all variants on the same data."
            )


def _right(predictions: Predictions) -> Bool[np.ndarray, " items"]:
    """Whether each output is one of the answers; white space only parts its words."""
    return np.array(
        [
            written.split() in [answer.split() for answer in answers]
            for written, answers in zip(predictions.predicted, predictions.answers, strict=True)
        ],
        dtype=bool,
    )


def _balanced(right: Bool[np.ndarray, "items variants"], order: list[int], count: int) -> list[int]:
    """Items in turn from every kind of disagreement, until there are enough."""
    kinds: dict[tuple[str, int], list[int]] = {}
    variants = right.shape[1]
    for item in order:
        number = int(right[item].sum())
        if number in (0, variants):
            continue
        kind = ("several", 0)
        if number == 1:
            kind = ("alone right", int(right[item].argmax()))
        elif number == variants - 1:
            kind = ("alone wrong", int(right[item].argmin()))
        kinds.setdefault(kind, []).append(item)
    # "alone right" of every variant before "alone wrong" of any, and the rest last.
    in_turn = _in_turn([kinds[kind] for kind in sorted(kinds)])
    return [item for item, _ in zip(in_turn, range(count), strict=False)]


def _in_turn(groups: list[list[int]]) -> Iterator[int]:
    for turn in range(max(map(len, groups), default=0)):
        yield from (group[turn] for group in groups if turn < len(group))


def _farthest_apart(
    predictions: Mapping[str, Predictions],
    task: type[RunTask],
    metric: str,
    order: list[int],
    count: int,
) -> list[int]:
    """The items with the widest spread of scores; of equal ones those that come first in the order."""
    named = metric if metric in task.summed else next(iter(task.summed))
    score = task.summed_metric(named).score
    scores: Float[np.ndarray, "items variants"] = np.stack(
        [
            score(task.item_statistics(named, of_variant.predicted, of_variant.answers))
            for of_variant in predictions.values()
        ],
        axis=1,
    )
    # An empty reference has no rate of errors, and so no spread of it.
    spread = np.nan_to_num(np.ptp(scores, axis=1))
    widest = sorted(order, key=lambda item: -spread[item])
    return [item for item in widest[:count] if spread[item] > 0]
