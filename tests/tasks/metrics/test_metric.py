"""Every metric: the score of summed statistics, the table of metrics, a metric of one's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.tasks import TASKS, task_class
from regard.tasks.metrics import (
    METRICS,
    ExactMatchError,
    Loss,
    Metric,
    PhoneErrorRate,
    RatioMetric,
    WordErrorRate,
    metric_class,
)
from regard.tasks.pronounce import Pronounce, PronounceOptions
from regard.tasks.translate import Translate

ITEMWISE = [name for name in METRICS if metric_class(name).is_itemwise]
NUMBERS = {"rmse", "mae", "pearson_r", "bits_per_character"}
SYMBOLS = ["a", "B", "the", "cat.", "ñ", "sat", "on"]

Items = tuple[list[Any], list[Any]]


def random_items(metric: str, seed: int) -> Items:
    """Items with correct, nearly correct and empty predictions, and references of several lengths."""
    rng = random.Random(seed)
    predictions: list[Any] = []
    references: list[Any] = []
    for _ in range(rng.choice([2, 7, 40])):
        targets = [rng.choices(SYMBOLS, k=rng.randint(1, 9)) for _ in range(rng.randint(1, 3))]
        prediction = [symbol for symbol in targets[0] if rng.random() < 0.9]
        prediction = rng.choice([targets[-1], prediction, rng.choices(SYMBOLS, k=3), []])
        if metric in NUMBERS:
            predictions.append(rng.gauss(3.0, 1.0))
            references.append("text" if metric == "bits_per_character" else rng.gauss(3.0, 1.0))
        elif metric in {"accuracy", "macro_f1"}:
            predictions.append(rng.choice(SYMBOLS))
            references.append(rng.choice(SYMBOLS))
        elif metric == "masked_accuracy":
            predictions.append(prediction)
            references.append(targets[0])
        else:
            predictions.append(" ".join(prediction))
            references.append(tuple(" ".join(reference) for reference in targets))
    return predictions, references


@pytest.mark.parametrize("name", ITEMWISE)
def test_score_of_many_samples_is_that_of_each(name: str) -> None:
    metric = metric_class(name)()
    for seed in range(10):
        items = random_items(name, seed)
        table = metric.table(*items)
        assert len(table) == len(items[0])
        expected = metric(*items)
        samples = np.stack([table.sum(axis=0), table.sum(axis=0), np.zeros(table.shape[1])])
        assert metric.score(samples)[:2].tolist() == pytest.approx([expected, expected])
        order = np.random.default_rng(seed).permutation(len(table))
        assert metric(*([side[item] for item in order] for side in items)) == pytest.approx(
            expected
        )


@pytest.mark.parametrize("name", METRICS)
def test_table_of_metrics(name: str) -> None:
    metric = metric_class(name)()
    assert metric.name == name
    assert type(metric).__doc__
    assert isinstance(metric.lower_is_better, bool)
    assert metric.unit in {"", "%", "bits", "nats"}
    assert len(metric.format(0.12345).partition(".")[2]) == metric.digits


@pytest.mark.parametrize("name", TASKS)
def test_metrics_of_tasks_have_one_definition_per_name(name: str) -> None:
    task = task_class(name)
    assert task.metrics[0].is_itemwise
    for metric in task.metrics:
        # A task may have its own unit of the loss.
        assert isinstance(metric, metric_class(metric.name))
        assert task.metric_named(metric.name) is metric
    assert task.metric_named("") is task.metrics[0]


def test_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(RegardError, match=r"Unknown metric 'blue'\. Did you mean 'bleu'"):
        Translate.metric_named("blue")
    with pytest.raises(RegardError, match=r"Unknown metric 'rmsee'\. Did you mean 'rmse'"):
        Pronounce.all_metrics(PronounceOptions(metrics=("rmsee",)))


def test_task_reports_metrics_that_the_options_add() -> None:
    options = PronounceOptions(metrics=("wer", "per", "wer"))
    names = [metric.name for metric in Pronounce.all_metrics(options)]
    assert names == ["exact_match_error", "per", "loss", "wer"]
    assert Pronounce.metric_named("wer", options).name == "wer"
    predictions, references = ["K AE T", "AH"], [("K AH T",), ("EY", "AH")]
    assert Pronounce.scores(predictions, references, options) == pytest.approx(
        {"exact_match_error": 50.0, "per": 25.0, "wer": 0.25}
    )


def test_wer_is_the_word_edit_rate_only() -> None:
    predictions, references = ["the cat sat down"], [("the dog sat down",)]
    assert WordErrorRate()(predictions, references) == 0.25
    assert ExactMatchError()(predictions, references) == 100.0
    assert "G2P papers call it WER" in ExactMatchError.note
    assert {metric.name for metric in Pronounce.metrics} == {"exact_match_error", "per", "loss"}


def test_statistics_by_hand() -> None:
    # "K AH T" is one edit from "K AE T"; the second word matches its other reference.
    predictions, references = ["K AH T", "EY"], [("K AE T",), ("AH", "EY")]
    assert ExactMatchError().table(predictions, references).tolist() == [[1, 1], [0, 1]]
    assert PhoneErrorRate().table(predictions, references).tolist() == [[1, 3], [0, 1]]
    assert metric_class("cer")().table(["abx"], [("abcd",)]).tolist() == [[2, 4]]
    assert metric_class("mean_cer")().table(["abx"], [("abcd",)]).tolist() == [[0.5, 1]]


def test_metric_of_the_model_has_no_statistics() -> None:
    with pytest.raises(RegardError, match="'loss'"):
        Loss()(["A"], [("A",)])


@pytest.mark.parametrize("name", ITEMWISE)
def test_unequal_or_no_items_raise(name: str) -> None:
    with pytest.raises(RegardError, match=rf"{name}: there are 2 predictions for 1 references"):
        metric_class(name)()(["a", "b"], [("a",)])
    with pytest.raises(RegardError, match=rf"{name}: there are 0 predictions for 0 references"):
        metric_class(name)()([], [])


def test_wrong_shape_of_statistics_raises() -> None:
    class Flat(RatioMetric):
        """One number per item instead of a row."""

        name = "flat"

        def statistics(self, predictions: Sequence[Any], references: Sequence[Any]) -> np.ndarray:
            return np.ones(len(predictions))

    metric: Metric = Flat()
    with pytest.raises(RegardError, match=r"flat: statistics\(\).*\(2,\) for 2 items"):
        metric(["a", "b"], ["a", "b"])


def test_documented_table() -> None:
    """docs/metrics.md lists every metric with its unit, its direction and whether it is itemwise."""
    page = Path(__file__).parents[3] / "docs" / "metrics.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in lines]
    documented = {name: (unit, better, items) for _, name, unit, better, _, items, _ in rows}
    kinds = {name: metric_class(name) for name in METRICS}
    assert documented == {
        name: (
            kind.unit,
            "lower" if kind.lower_is_better else "higher",
            "yes" if kind.is_itemwise else "no",
        )
        for name, kind in kinds.items()
    }
