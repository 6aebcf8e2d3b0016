"""A metric: per-item sufficient statistics, a corpus score computed from their sums, direction and unit.

A corpus score is not the mean of item scores: an error rate is all edits over all lengths, and BLEU sums
its n-gram counts over the corpus. From the statistics of each item, a score of any resample of the items
follows without a second pass over the predictions, so every metric has intervals and paired tests.

    class Length(RatioMetric):                  # mean length of the predictions, in words
        name = "length"

        def statistics(self, predictions, references):
            return np.array([(len(text.split()), 1) for text in predictions])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int64, Real

from regard.core.errors import RegardError
from regard.core.formatting import score_text


class Metric(ABC):
    """A metric of predictions against references.

    name             how tables, options and records call it
    unit             "%" for percentages, "" for plain numbers, "bits", "nats"
    lower_is_better  the direction
    digits           digits after the point when printed
    note             one line shown with it, such as what others call it

    `predictions[i]` and `references[i]` are what the task predicts and its dataset holds: for sequence
    tasks a text and a tuple of reference texts, for classification labels, for regression numbers.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = ""
    lower_is_better: ClassVar[bool] = False
    digits: ClassVar[int] = 2
    note: ClassVar[str] = ""
    is_itemwise: ClassVar[bool] = True

    @abstractmethod
    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Real[np.ndarray, "items k"]:
        """The sufficient statistics of each item."""

    @abstractmethod
    def score(self, sums: Float[np.ndarray, "*samples k"]) -> Float[np.ndarray, "*samples"]:
        """The metric of each sample, from its summed statistics; NaN where it is undefined."""

    def table(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Float[np.ndarray, "items k"]:
        """The statistics of each item, after a check of the number of items."""
        if len(predictions) != len(references) or not len(predictions):
            raise RegardError(
                f"{self.name}: there are {len(predictions)} predictions for {len(references)} references. "
                "Give one prediction per reference, and at least one."
            )
        rows = np.asarray(self.statistics(predictions, references), dtype=np.float64)
        if rows.ndim != 2 or len(rows) != len(predictions):
            raise RegardError(
                f"{self.name}: statistics() returned an array of shape {rows.shape} for "
                f"{len(predictions)} items. Return one row of numbers per item."
            )
        return rows

    def __call__(self, predictions: Sequence[Any], references: Sequence[Any]) -> float:
        """The corpus score."""
        return float(self.score(self.table(predictions, references).sum(axis=0)))

    def format(self, value: float) -> str:
        """The value as tables print it, without its unit."""
        return score_text(value, decimals=self.digits)

    @property
    def signature(self) -> str:
        """The exact definition, for a metric that has several; empty otherwise."""
        return ""


class RatioMetric(Metric):
    """The sum of the first of two statistics over that of the second; with the unit "%" times 100."""

    def score(self, sums: Float[np.ndarray, "*samples 2"]) -> Float[np.ndarray, "*samples"]:
        part, whole = sums[..., 0], sums[..., 1]
        ratio = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
        return np.asarray(100.0 * ratio if self.unit == "%" else ratio)


class ModelMetric(Metric):
    """A metric that the model reports, such as its loss: not a function of the predictions.

    It has no per-item statistics, so a study compares it over seeds only.
    """

    is_itemwise = False

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Real[np.ndarray, "items k"]:
        raise RegardError(
            f"The metric '{self.name}' has no per-item statistics: it is not a function of the predictions."
        )

    def score(self, sums: Float[np.ndarray, "*samples k"]) -> Float[np.ndarray, "*samples"]:
        raise RegardError(f"The metric '{self.name}' has no per-item statistics.")


class ProbabilityMetric(ModelMetric):
    """A metric of the probabilities of classes, which predictions do not hold."""

    @abstractmethod
    def of_probabilities(
        self,
        probabilities: Float[np.ndarray, "items classes"],
        targets: Int64[np.ndarray, " items"],
    ) -> float:
        """The metric; a target is a class id, or negative for a label unseen in training."""


class Loss(ModelMetric):
    """The mean loss per prediction, in nats."""

    name, unit, lower_is_better, digits = "loss", "nats", True, 4


def only(reference: Any) -> Any:
    """The reference of an item that has one: itself, or the first of a tuple."""
    return reference[0] if isinstance(reference, tuple) else reference


def validate_choices(references: Sequence[Sequence[str]]) -> None:
    """Raise if an item of a sequence task has no reference."""
    for number, choices in enumerate(references, start=1):
        if not choices:
            raise RegardError(
                f"Item {number} has no references. Give each item at least one, or remove the item."
            )
