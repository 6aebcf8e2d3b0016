"""What items add up to is the score of the whole, for every metric of every task."""

from __future__ import annotations

import random

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.tasks import TASKS, task_class
from regard.tasks.metrics.edit_distance import nearest_edits, wrong_items
from regard.tasks.seq2seq.pronounce import Pronounce
from regard.tasks.seq2seq.translate import Translate

# Those whose predictions are texts; elsewhere they are numbers or labels, and have tests of their own.
WRITING = ("pronounce", "translate", "recall")
SUMMED = [(name, metric) for name in WRITING for metric in task_class(name).summed]
SYMBOLS = ["a", "B", "the", "cat.", "ñ", "sat", "on"]

Items = tuple[list[str], list[list[str]]]


def made_up(seed: int) -> Items:
    """Items of any size: some predictions right, some nearly, some empty; answers of several lengths."""
    chance = random.Random(seed)
    predicted, answers = [], []
    for _ in range(chance.choice([1, 2, 7, 40])):
        right = [
            chance.choices(SYMBOLS, k=chance.randint(1, 9)) for _ in range(chance.randint(1, 3))
        ]
        guess = [symbol for symbol in right[0] if chance.random() < 0.9]
        guess = chance.choice([right[-1], guess, chance.choices(SYMBOLS, k=3), []])
        predicted.append(" ".join(guess))
        answers.append([" ".join(answer) for answer in right])
    return predicted, answers


# No n-gram of length 4; nothing predicted; an empty reference beside another; nothing in common.
EDGES: list[Items] = [
    (["a"], [["a"]]),
    (["", ""], [["a cat"], ["b"]]),
    (["a cat", ""], [[""], ["a cat"]]),
    (["x y z w v"], [["a b c d e"]]),
    (["a b c d e f g"], [["a b c d e f g h i j"]]),
]


@pytest.mark.parametrize(("name", "metric"), SUMMED)
@pytest.mark.parametrize("items", [*EDGES, *map(made_up, range(40))])
def test_the_score_of_sums_is_the_score(name: str, metric: str, items: Items) -> None:
    task = task_class(name)
    statistics = task.item_statistics(metric, *items)
    assert len(statistics) == len(items[0])
    score = task.summed_metric(metric).score
    expected = task.scores(*items)[metric]
    assert score(statistics.sum(axis=0)) == pytest.approx(expected, abs=1e-9)
    # Of many samples at once, one of them empty.
    samples = np.stack([statistics.sum(axis=0), np.zeros(statistics.shape[1])])
    assert score(samples)[0] == pytest.approx(expected, abs=1e-9)


def test_every_metric_that_is_predicted_is_summed() -> None:
    for name in WRITING:
        task = task_class(name)
        assert set(task.metrics) - set(task.summed) == {"loss"}
    for name in TASKS:
        assert next(iter(task_class(name).metrics)) in task_class(name).summed


def test_items_can_be_checked_by_hand() -> None:
    # "K AH T" is one edit from "K AE T"; the second word is right by its other answer.
    predicted, answers = ["K AH T", "EY"], [["K AE T"], ["AH", "EY"]]
    assert Pronounce.item_statistics("wer", predicted, answers).tolist() == [[1, 1], [0, 1]]
    assert Pronounce.item_statistics("per", predicted, answers).tolist() == [[1, 3], [0, 1]]
    assert Translate.item_statistics("cer", ["abx"], [["abcd"]]).tolist() == [[2, 4]]
    assert Translate.item_statistics("mean_cer", ["abx"], [["abcd"]]).tolist() == [[0.5, 1]]


def test_what_is_no_sum_is_refused() -> None:
    with pytest.raises(
        RegardError, match=r"'loss' is not a function of what was predicted.*wer, per"
    ):
        Pronounce.item_statistics("loss", ["A"], [["A"]])
    with pytest.raises(RegardError, match=r"Unknown metric 'blue'\. Did you mean 'bleu'"):
        Translate.summed_metric("blue")


def test_items_without_answers_are_refused() -> None:
    for statistics in (wrong_items, nearest_edits):
        with pytest.raises(RegardError, match="Item 2 has no answers"):
            statistics([["A"], ["B"]], [[["A"]], []])
