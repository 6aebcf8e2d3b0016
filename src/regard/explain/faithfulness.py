"""How faithful methods are: deletion and sufficiency curves against random, on validation data.

    curves = measure_faithfulness(regard.load("runs/pronounce-1"))

    deletion      the units that a method ranks highest are removed: a faithful one lowers the score fast
    sufficiency   only those are kept: a faithful one keeps the score high

The same is done in random orders. The gains are the areas between the curves, method against random, on the
side where a method is better than chance if they are positive (ERASER calls the two comprehensiveness and
sufficiency, DeYoung et al. 2020). An input with parts removed is out of distribution, which is why the
random orders are the baseline and not the unchanged input. Units, removal and score: `explain/removal.py`.

Items are drawn from the split at random, without replacement. Each has `draws` random orders, the same for
all methods; ties are broken at random. All of it follows from the seed and the number of the item. The
draws of an item are averaged first; intervals are 95 % percentile bootstrap intervals over items, paired.
Items with fewer than two units are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int64

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError
from regard.core.manifest import validate_no_link
from regard.core.records.document import Estimate, validate_fractions
from regard.core.records.look import FaithfulnessCurves
from regard.core.records.record import Record
from regard.data.dataset import read_split
from regard.data.readers.text_file import RowErrors
from regard.explain.attribution import IMPORTANCE_METHODS
from regard.explain.removal import Removable, run_item
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun
from regard.tasks import task_class
from regard.tasks.classification.deletion import (
    area,
    bootstrap_estimates,
    removal_count,
    removal_orders,
)

FRACTIONS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
ITEMS, DRAWS, RESAMPLES = 100, 3, 2000
SCORES = {
    "class": "probability of the predicted label",
    "value": "minus the change of the predicted number",
    "sequence": "mean log-probability of the predicted tokens",
}

Scores = Float[np.ndarray, "_orders fractions"]


@dataclass(frozen=True, kw_only=True)
class FaithfulnessFile(Record):
    """faithfulness.json of a run folder: the curves, and what they were measured on.

    Args:
        model: SHA-256 of model.safetensors.
        items, draws, seed: As of `measure_faithfulness`.
        curves: One per method.
    """

    INDENT: ClassVar[int | None] = 1
    model: str
    items: int
    draws: int
    seed: int
    curves: tuple[FaithfulnessCurves, ...]


def read_faithfulness(run: TrainedRun) -> FaithfulnessFile | None:
    """What was measured for the model of a run; None if nothing was, or the file is damaged or stale."""
    path = run.folder.faithfulness
    with suppress(RegardError, OSError):
        validate_no_link(path)
        found = FaithfulnessFile.from_json(path.read_bytes())
        if found.model == _model_hash(run.folder):
            return found
    return None


def measure_faithfulness(
    run: TrainedRun,
    *,
    file: str | None = None,
    items: int = ITEMS,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[FaithfulnessCurves, ...]:
    """The curves of every method that the model has layers for, on validation items, measured once.

    They are kept in the run folder, and read from there until the model or an argument changes.

    file    other data than the validation split; not kept
    items   how many are drawn, at most
    draws   random orders of each item
    """
    known = read_faithfulness(run) if file is None else None
    if known is not None and (known.items, known.draws, known.seed) == (items, draws, seed):
        return known.curves
    kind, options = task_class(run.spec.task), run.spec.task_options
    if file is None:
        split = read_split(run.preprocessor, options, kind.readers(options), "validation")
    else:
        split = kind.read_split(file, options, preprocessor=run.preprocessor, errors=RowErrors())
    order = np.random.default_rng(seed).permutation(len(split.inputs))
    curves = faithfulness_curves(
        (run_item(run, split.inputs[number]) for number in order),
        items=items,
        draws=draws,
        seed=seed,
        score=SCORES.get(kind.target_kind, ""),
        data="validation split" if file is None else file,
    )
    if file is None:
        with suppress(RegardError, OSError):  # the folder may be read-only
            measured = FaithfulnessFile(
                model=_model_hash(run.folder), items=items, draws=draws, seed=seed, curves=curves
            )
            validate_no_link(run.folder.faithfulness)
            atomic_write(run.folder.faithfulness, measured.as_json())
    return curves


def _model_hash(folder: RunFolder) -> str:
    states = folder.manifest.read().files.get(folder.model.name) or [None]
    return "" if states[-1] is None else str(states[-1]["sha256"])


def faithfulness_curves(
    inputs: Iterable[Removable],
    *,
    methods: Sequence[str] = IMPORTANCE_METHODS,
    items: int = ITEMS,
    draws: int = DRAWS,
    fractions: tuple[float, ...] = FRACTIONS,
    seed: int = 0,
    score: str,
    data: str,
) -> tuple[FaithfulnessCurves, ...]:
    """The curves of the first `items` inputs that have two units or more.

    score, data   what the score and the inputs are, for the record
    """
    validate_fractions(fractions)
    for name, value in {"items": items, "draws": draws}.items():
        if value < 1:
            raise RegardError(f"{name}={value}: faithfulness needs 1 or more.")
    found: list[_ItemScores] = []
    for number, item in enumerate(inputs):
        if item.units >= 2 and len(found) < items:
            found.append(_item_scores(item, methods, fractions, draws, [seed, number]))
        if len(found) == items:
            break
    if not found:
        raise RegardError(
            "No input has two parts or more, so nothing can be removed. Give longer inputs."
        )
    named = [name for name in methods if all(name in each.deletion for each in found)]
    if not named:
        raise RegardError(
            "The model has no attention over its input, and its input no embedding to attribute to, so "
            "there is no method to test. Use a model with attention."
        )
    return tuple(
        _curves(name, found, fractions, seed=seed, score=score, data=data) for name in named
    )


@dataclass(frozen=True, kw_only=True)
class _ItemScores:
    """The scores of one item; `random` orders are rows, the others have one."""

    deletion: dict[str, Scores]
    sufficiency: dict[str, Scores]
    random_deletion: Scores
    random_sufficiency: Scores


def _item_scores(
    item: Removable,
    methods: Sequence[str],
    fractions: tuple[float, ...],
    draws: int,
    entropy: list[int],
) -> _ItemScores:
    """All subsets of an item are scored together, each once."""
    generator, units = np.random.default_rng(entropy), np.arange(item.units)
    importance = item.importance(methods)
    shuffled = [generator.permutation(units) for _ in range(draws)]
    best = [
        removal_orders(each, units, 0, np.random.default_rng(entropy))[0]
        for each in importance.values()
    ]
    orders = np.stack([*best, *shuffled])
    counts = [removal_count(fraction, item.units) for fraction in fractions]
    kept: list[Int64[np.ndarray, " _"]] = []
    for order in orders:
        kept += [order[count:] for count in counts]
        kept += [order[: max(1, count)] for count in counts]
    both = item.scores(kept).reshape(len(orders), 2, len(counts))
    return _ItemScores(
        deletion={name: both[[row], 0] for row, name in enumerate(importance)},
        sufficiency={name: both[[row], 1] for row, name in enumerate(importance)},
        random_deletion=both[len(best) :, 0],
        random_sufficiency=both[len(best) :, 1],
    )


def _curves(
    method: str,
    found: list[_ItemScores],
    fractions: tuple[float, ...],
    *,
    seed: int,
    score: str,
    data: str,
) -> FaithfulnessCurves:
    deletion = np.stack([each.deletion[method] for each in found])
    sufficiency = np.stack([each.sufficiency[method] for each in found])
    random_deletion = np.stack([each.random_deletion for each in found])
    random_sufficiency = np.stack([each.random_sufficiency for each in found])
    # Nothing differs at fraction 0, from which `area` begins.
    gains = np.concatenate(
        [
            area(random_deletion - deletion, fractions),
            area(sufficiency - random_sufficiency, fractions),
        ],
        axis=-1,
    )
    gain: tuple[Estimate, ...] = bootstrap_estimates(gains, resamples=RESAMPLES, seed=seed)
    return FaithfulnessCurves(
        method=method,
        fractions=fractions,
        deletion=_mean(deletion),
        random_deletion=_mean(random_deletion),
        sufficiency=_mean(sufficiency),
        random_sufficiency=_mean(random_sufficiency),
        deletion_gain=gain[0],
        sufficiency_gain=gain[1],
        score=score,
        items=len(found),
        data=data,
    )


def _mean(scores: Float[np.ndarray, "items orders fractions"]) -> tuple[float, ...]:
    return tuple(scores.mean(axis=(0, 1)).tolist())
