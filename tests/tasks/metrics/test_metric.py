"""The sum of item statistics gives the corpus score, for every metric of every task."""

from __future__ import annotations

import random

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.tasks import TASKS, task_class
from regard.tasks.metrics.edit_distance import nearest_edits, sequence_errors
from regard.tasks.seq2seq.pronounce import Pronounce
from regard.tasks.seq2seq.translate import Translate

# Tasks whose predictions are texts.
GENERATION_TASKS = ("pronounce", "translate", "closed_book_qa")
CORPUS_METRICS = [
    (name, metric) for name in GENERATION_TASKS for metric in task_class(name).corpus_metrics
]
SYMBOLS = ["a", "B", "the", "cat.", "ñ", "sat", "on"]

Items = tuple[list[str], list[list[str]]]


def random_items(seed: int) -> Items:
    """Items with correct, nearly correct and empty predictions, and references of several lengths."""
    rng = random.Random(seed)
    predictions, references = [], []
    for _ in range(rng.choice([1, 2, 7, 40])):
        targets = [rng.choices(SYMBOLS, k=rng.randint(1, 9)) for _ in range(rng.randint(1, 3))]
        prediction = [symbol for symbol in targets[0] if rng.random() < 0.9]
        prediction = rng.choice([targets[-1], prediction, rng.choices(SYMBOLS, k=3), []])
        predictions.append(" ".join(prediction))
        references.append([" ".join(reference) for reference in targets])
    return predictions, references


# No n-gram of length 4; nothing predictions; an empty reference beside another; nothing in common.
EDGES: list[Items] = [
    (["a"], [["a"]]),
    (["", ""], [["a cat"], ["b"]]),
    (["a cat", ""], [[""], ["a cat"]]),
    (["x y z w v"], [["a b c d e"]]),
    (["a b c d e f g"], [["a b c d e f g h i j"]]),
]


@pytest.mark.parametrize(("name", "metric"), CORPUS_METRICS)
@pytest.mark.parametrize("items", [*EDGES, *map(random_items, range(40))])
def test_score_of_summed_statistics(name: str, metric: str, items: Items) -> None:
    task = task_class(name)
    statistics = task.item_statistics(metric, *items)
    assert len(statistics) == len(items[0])
    score = task.corpus_metric(metric).score
    expected = task.scores(*items)[metric]
    assert score(statistics.sum(axis=0)) == pytest.approx(expected, abs=1e-9)
    # Of many samples at once, one of them empty.
    samples = np.stack([statistics.sum(axis=0), np.zeros(statistics.shape[1])])
    assert score(samples)[0] == pytest.approx(expected, abs=1e-9)


def test_every_metric_of_predictions_is_a_corpus_metric() -> None:
    for name in GENERATION_TASKS:
        task = task_class(name)
        assert set(task.metrics) - set(task.corpus_metrics) == {"loss"}
    for name in TASKS:
        assert next(iter(task_class(name).metrics)) in task_class(name).corpus_metrics


def test_item_statistics_by_hand() -> None:
    # "K AH T" is one edit from "K AE T"; the second word matches its other reference.
    predictions, references = ["K AH T", "EY"], [["K AE T"], ["AH", "EY"]]
    assert Pronounce.item_statistics("wer", predictions, references).tolist() == [[1, 1], [0, 1]]
    assert Pronounce.item_statistics("per", predictions, references).tolist() == [[1, 3], [0, 1]]
    assert Translate.item_statistics("cer", ["abx"], [["abcd"]]).tolist() == [[2, 4]]
    assert Translate.item_statistics("mean_cer", ["abx"], [["abcd"]]).tolist() == [[0.5, 1]]


def test_metric_without_item_statistics_raises() -> None:
    with pytest.raises(RegardError, match=r"'loss'.*wer, per"):
        Pronounce.item_statistics("loss", ["A"], [["A"]])
    with pytest.raises(RegardError, match=r"Unknown metric 'blue'\. Did you mean 'bleu'"):
        Translate.corpus_metric("blue")


def test_item_without_references_raises() -> None:
    for statistics in (sequence_errors, nearest_edits):
        with pytest.raises(RegardError, match="Item 2"):
            statistics([["A"], ["B"]], [[["A"]], []])
