"""Results of the best checkpoint of a run: scores with intervals, details, items, attention."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NotRequired

import numpy as np
from jaxtyping import Float
from typing_extensions import TypedDict

from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord, TreeRecord
from regard.core.records.document import DeletionRecord, DocumentRecord
from regard.core.records.image import ClassifiedImage
from regard.core.records.record import parse_json
from regard.core.records.run import (
    AlignmentScore,
    CalibrationRecord,
    ConfusionRecord,
    ItemRecord,
    ReliabilityBin,
    RunScore,
    SplitRecord,
)
from regard.data.splits import Split
from regard.explain.media_classifier import explain_image
from regard.explain.text_classifier import builds_trees, explain_input, parse_tree
from regard.runs.folder import Predictions, RunFolder
from regard.runs.load import load
from regard.runs.spec import RunSpec
from regard.studies.attention import DECIMALS, compact, compact_image, median_length_sample
from regard.studies.comparison import finite_scores
from regard.studies.statistics.bootstrap import compare_on_items
from regard.studies.statistics.paired import Interval
from regard.studies.summary import (
    can_be_correct,
    is_correct,
    output_text,
    shown_references,
)
from regard.tasks import task_class
from regard.tasks.metrics import Metric

NUM_EXAMPLES = 12
NUM_RANKED = 8
SEED = 0


class _Bin(TypedDict):
    items: int
    confidence: float | None
    accuracy: float | None


class _Calibration(TypedDict):
    expected_calibration_error: float
    bins: list[_Bin]


class _Details(TypedDict):
    """What is read of the details of a split; a task may record more."""

    confusion: NotRequired[ConfusionRecord]
    calibration: NotRequired[_Calibration]
    deletion: NotRequired[DeletionRecord]
    alignment: NotRequired[AlignmentScore]


def split_record(
    folder: RunFolder,
    name: str,
    record: Mapping[str, Any],
    metrics: Sequence[Metric],
    predictions: Predictions,
    *,
    log: Callable[[str], None],
) -> SplitRecord:
    """The scores of a split with intervals over its items, baselines, and the details of a classifier."""
    problem = f"'{folder.record}' has malformed details of the {name} split"
    way_out = f"Remove the file and evaluate the run again: regard train --resume {folder.path}"
    details: _Details = parse_json(
        _Details,
        json.dumps(record.get("details", {}).get(name, {})),
        problem=problem,
        way_out=way_out,
    )
    confusion, calibration = details.get("confusion"), details.get("calibration")
    if confusion is not None and {len(confusion.labels)} != {
        len(confusion.counts),
        *map(len, confusion.counts),
    }:
        raise RegardError(f"{problem}: the confusion matrix has not a row per label. {way_out}")
    scores = {}
    for metric in metrics:
        value = record["scores"][name].get(metric.name)
        if value is not None and math.isfinite(value):
            low, high = _interval(metric, predictions, log=log) or (None, None)
            scores[metric.name] = RunScore(value=value, low=low, high=high)
    return SplitRecord(
        name=name,
        items=len(predictions),
        scores=scores,
        baselines={
            baseline: finite_scores(found["scores"])
            for baseline, found in record.get("baselines", {}).get(name, {}).items()
        },
        confusion=confusion,
        calibration=None
        if calibration is None
        else CalibrationRecord(
            error=calibration["expected_calibration_error"],
            bins=tuple(
                ReliabilityBin(
                    items=each["items"], confidence=each["confidence"], accuracy=each["accuracy"]
                )
                for each in calibration["bins"]
                if each["confidence"] is not None and each["accuracy"] is not None
            ),
        ),
        deletion=details.get("deletion"),
        alignment=details.get("alignment"),
    )


def _interval(
    metric: Metric, predictions: Predictions, *, log: Callable[[str], None]
) -> Interval | None:
    """The 95 % BCa interval over items; None if the metric is not item-wise, or no resample differs."""
    if not metric.is_itemwise:
        return None
    try:
        statistics = metric.table(predictions.predictions, predictions.references)
        found = compare_on_items(
            {"run": statistics},
            score=metric.score,
            lower_is_better=metric.lower_is_better,
        )
    except RegardError as error:
        log(f"{metric.name} has no interval over items: {error}")
        return None
    return found.variants[0].interval if found.variants else None


class Items(NamedTuple):
    """Items to show; `metric` is what they are ranked by, empty if they have no score.

    `num_best` and `num_worst` are the numbers of items with the score of the last one that is shown.
    """

    metric: str
    examples: tuple[ItemRecord, ...]
    best: tuple[ItemRecord, ...] = ()
    worst: tuple[ItemRecord, ...] = ()
    num_best: int = 0
    num_worst: int = 0


def show_items(
    predictions: Predictions, metrics: Sequence[Metric], *, is_generative: bool
) -> Items:
    """A sample, and the best and the worst items by the first item-wise metric.

    Ties are broken by the other item-wise metrics, then by the order of the items.
    """
    itemwise = [one for one in metrics if one.is_itemwise]
    badness = np.zeros((len(predictions), 0))
    scores: Float[np.ndarray, " items"] = np.full(len(predictions), math.nan)
    for number, metric in enumerate(itemwise):
        rows = metric.table(predictions.predictions, predictions.references)
        found = np.asarray(metric.score(rows), dtype=np.float64)
        scores = found if number == 0 else scores
        sign = 1 if metric.lower_is_better else -1
        badness = np.column_stack([badness, np.nan_to_num(sign * found)])
    correct, is_marked = is_correct(predictions), can_be_correct(predictions)

    def item(index: int) -> ItemRecord:
        return ItemRecord(
            input=predictions.inputs[index],
            references=shown_references(predictions, index),
            prediction=output_text(predictions.predictions[index])
            + (" nats" if is_generative else ""),
            correct=bool(correct[index]) if is_marked else None,
            score=float(scores[index]) if math.isfinite(scores[index]) else None,
        )

    drawn = random.Random(SEED).sample(range(len(predictions)), min(NUM_EXAMPLES, len(predictions)))
    examples = tuple(map(item, sorted(drawn)))
    ranked = np.flatnonzero(np.isfinite(scores))
    if not itemwise or not len(ranked):
        return Items("", examples)
    shown: list[tuple[ItemRecord, ...]] = []
    counts: list[int] = []
    for direction in (1, -1):
        order = np.lexsort((direction * badness[ranked].T)[::-1])
        chosen = ranked[order[: min(NUM_RANKED, max(1, len(ranked) // 2))]]
        # Among the best there is none that is as bad as the worst, and the other way round.
        other_end = scores[ranked[order[-1]]]
        chosen = chosen[scores[chosen] != other_end]
        shown.append(tuple(map(item, chosen.tolist())))
        counts.append(int((scores == scores[chosen[-1]]).sum()) if len(chosen) else 0)
    (best, worst), (num_best, num_worst) = shown, counts
    return Items(itemwise[0].name, examples, best, worst, num_best, num_worst)


class Attention(NamedTuple):
    """Attention on a few items."""

    alignments: tuple[AlignmentRecord, ...] = ()
    documents: tuple[DocumentRecord, ...] = ()
    trees: tuple[TreeRecord, ...] = ()
    images: tuple[ClassifiedImage, ...] = ()
    notes: tuple[str, ...] = ()


def show_attention(
    folder: RunFolder, spec: RunSpec, examples: Sequence[ItemRecord], *, split: Split
) -> Attention:
    """The attention on a few examples of about median length; none for models without."""
    kind = task_class(spec.task)
    is_drawn = kind.target_kind == "class" or bool(kind.decode_kwargs(spec.task_options))
    references = {each.input: each.references[0] for each in examples if each.references}
    preprocessor = kind.preprocessor_class
    names = median_length_sample(list(references), count=preprocessor.num_shown, seed=SEED)
    can_be_shown = kind.input_kind == "tokens" or preprocessor.has_pictures
    if not can_be_shown or not is_drawn or not names:
        return Attention()
    run = load(folder.path)
    try:
        if builds_trees(run):
            return Attention(trees=tuple(parse_tree(run, text) for text in names))
        if kind.target_kind != "class" and not run.has_cross_attention:
            return Attention()
        inputs = run.inputs(names, split=split)
        if kind.input_kind == "images":
            images = (
                compact_image(
                    explain_image(run, inputs[name], name=name, reference=references[name])
                )
                for name in names
            )
            shown = (each for each in images if each.attention or each.feature_maps)
            return Attention(images=tuple(shown))
        if kind.target_kind == "class":
            documents = (
                explain_input(run, inputs[name], name=name, reference=references[name])
                for name in names
            )
            return Attention(documents=tuple(_rounded(each) for each in documents if each))
        alignments = (
            replace(run.alignment(inputs[name], name=name), reference=references[name])
            for name in names
        )
        return Attention(alignments=tuple(map(compact, alignments)))
    except RegardError as error:
        return Attention(notes=(f"Attention is not shown: {error}",))


def _rounded(document: DocumentRecord) -> DocumentRecord:
    """The document with rounded weights, to keep records small."""
    hops = tuple(tuple(round(weight, DECIMALS) for weight in hop) for hop in document.hops)
    return replace(document, hops=hops)
