"""Items on which the arms of a study disagree, chosen by a seed and not by hand.

Where outputs are often right as a whole, these are items that some arms get right and others wrong.
Each arm is, where there are such items, alone right in some and alone wrong in others, so that none is
shown from its best side only. Where hardly any output is right as a whole, as in translation, they are
the items whose own scores lie farthest apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Bool, Float

from regard.core.errors import RegardError
from regard.core.study_record import Disagreement
from regard.runs.predictions import Predictions
from regard.tasks.run_task import RunTask

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
    """At most `count` items in the order of the part, from what each arm wrote for the same items.

    In place of a metric that cannot be taken item by item, such as the loss, the task's first that can is.
    """
    if len(predictions) < 2:
        return ()
    first = next(iter(predictions.values()))
    _require_same_items(predictions)
    right = np.stack([_right(of_arm) for of_arm in predictions.values()], axis=1)
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
            predicted={arm: of_arm.predicted[item] for arm, of_arm in predictions.items()},
            right=tuple(
                arm for arm, is_right in zip(predictions, right[item], strict=True) if is_right
            ),
        )
        for item in sorted(chosen)
    )


def _require_same_items(predictions: Mapping[str, Predictions]) -> None:
    first_arm, first = next(iter(predictions.items()))
    for arm, of_arm in predictions.items():
        if (of_arm.sources, of_arm.answers) != (first.sources, first.answers):
            raise RegardError(
                f"The arms '{first_arm}' and '{arm}' were not scored on the same items, so they cannot be "
                "compared item by item. Score all arms on the same data."
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


def _balanced(right: Bool[np.ndarray, "items arms"], order: list[int], count: int) -> list[int]:
    """Items in turn from every kind of disagreement, until there are enough."""
    kinds: dict[tuple[str, int], list[int]] = {}
    arms = right.shape[1]
    for item in order:
        number = int(right[item].sum())
        if number in (0, arms):
            continue
        kind = ("several", 0)
        if number == 1:
            kind = ("alone right", int(right[item].argmax()))
        elif number == arms - 1:
            kind = ("alone wrong", int(right[item].argmin()))
        kinds.setdefault(kind, []).append(item)
    # "alone right" of every arm before "alone wrong" of any, and the rest last.
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
    scores: Float[np.ndarray, "items arms"] = np.stack(
        [
            score(task.item_statistics(named, of_arm.predicted, of_arm.answers))
            for of_arm in predictions.values()
        ],
        axis=1,
    )
    # An empty reference has no rate of errors, and so no spread of it.
    spread = np.nan_to_num(np.ptp(scores, axis=1))
    widest = sorted(order, key=lambda item: -spread[item])
    return [item for item in widest[:count] if spread[item] > 0]
