"""Classification metrics: accuracy, macro-F1, AUC, overlap of hops, confusion matrix and calibration.

`ConfusionMatrix` has precision, recall and F1 of each label:

             predicted a   predicted b
    true a        8             2          recall of a: 8 of the 10 that are a
    true b        1             4          precision of a: 8 of the 9 predicted as a

F1 is the harmonic mean of precision and recall, 2 · correct / (predicted + true). A score with a zero
denominator is undefined (NaN) rather than 0; `MacroF1` is the mean F1 over the other labels.

`Calibration`: from the confidence p of each prediction and whether it is correct (c = 1) or not (c = 0),

    expected calibration error   Σ over bins of n_bin / n · |accuracy − mean p|        (Guo et al. 2017)
    Brier score                  mean of (p − c)²                                      (Brier 1950)
    log loss                     mean of −c·ln p − (1 − c)·ln(1 − p), in nats

Bins have equal widths: bin m of M holds (m−1)/M < p ≤ m/M, the first also p = 0. ECE depends on the
number of bins, which is reported with it. Brier score and log loss are those of the binary event "the
prediction is correct", not of the whole distribution over labels. For the log loss alone, probabilities
are clipped to 2⁻⁵² from 0 and 1, since it is infinite for a confident mistake.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float, Int64

from regard.core.errors import RegardError
from regard.core.formatting import aligned, truncate
from regard.tasks.metrics.metric import Metric, ModelMetric, ProbabilityMetric, RatioMetric, only


class Accuracy(RatioMetric):
    """The percentage of predicted labels that are correct.

    >>> Accuracy()(["a", "b"], ["a", "c"])
    50.0
    """

    name, unit = "accuracy", "%"

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Float[np.ndarray, "items 2"]:
        pairs = zip(predictions, references, strict=True)
        hits = np.array([label == only(target) for label, target in pairs], dtype=np.float64)
        return np.stack([hits, np.ones_like(hits)], axis=1)


class LabelMetric(Metric):
    """A mean over labels, in percent; NaN without labels."""

    unit = "%"

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Float[np.ndarray, "items k"]:
        """For each label in sorted order: true positives, predicted, true.

        The labels are those that occur: count several models together.
        """
        targets = [only(reference) for reference in references]
        _, numbers = np.unique([*predictions, *targets], return_inverse=True)
        is_label = numbers.reshape(2, -1, 1) == np.arange(numbers.max() + 1)
        predicted, true = is_label.astype(np.float64)
        return np.stack([predicted * true, predicted, true], axis=-1).reshape(len(targets), -1)

    def score(self, sums: Float[np.ndarray, "*samples k"]) -> Float[np.ndarray, "*samples"]:
        hits, predicted, true = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
        part, whole = self.ratio(hits, predicted, true)
        counted = whole > 0
        of_label = np.divide(part, whole, out=np.zeros_like(hits), where=counted)
        labels = counted.sum(axis=-1)
        undefined = np.full(labels.shape, np.nan)
        mean = np.divide(of_label.sum(axis=-1), labels, out=undefined, where=labels > 0)
        return np.asarray(100 * mean)

    @staticmethod
    @abstractmethod
    def ratio(
        hits: np.ndarray, predicted: np.ndarray, true: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numerator and denominator of each label; one with the denominator 0 is left out."""


class MacroF1(LabelMetric):
    """The mean F1 over labels, in percent.

    As in scikit-learn, a label that is predicted but never true has an F1 of 0. NaN without labels.

    >>> round(MacroF1()(["a", "a"], ["a", "b"]), 1)
    33.3
    """

    name = "macro_f1"

    @staticmethod
    def ratio(
        hits: np.ndarray, predicted: np.ndarray, true: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return 2 * hits, predicted + true


class BalancedAccuracy(LabelMetric):
    """The mean recall over labels that occur, in percent: every label counts the same.

    >>> BalancedAccuracy()(["a", "a", "a", "a"], ["a", "a", "a", "b"])
    50.0
    """

    name = "balanced_accuracy"

    @staticmethod
    def ratio(
        hits: np.ndarray, predicted: np.ndarray, true: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        del predicted
        return hits, true


class AUC(ProbabilityMetric):
    """The area under the ROC curve: how often an item of a class has a higher probability than others.

    Of two classes, that of the second one. Of several, the mean over classes, each against the rest; one
    that does not occur, or that all items are of, is left out. 0.5 is chance; ties count one half.

    >>> AUC().of_probabilities(np.array([[0.6, 0.4], [0.2, 0.8], [0.5, 0.5]]), np.array([0, 1, 0]))
    1.0
    """

    name, digits, note = "auc", 3, "area under the ROC curve"

    def of_probabilities(
        self,
        probabilities: Float[np.ndarray, "items classes"],
        targets: Int64[np.ndarray, " items"],
    ) -> float:
        """The mean rank of the items of a class among all, as Mann and Whitney have it."""
        from scipy.stats import rankdata

        known = targets >= 0
        probabilities, targets = probabilities[known], targets[known]
        classes = probabilities.shape[1]
        is_class = targets[:, None] == np.arange(classes)
        counts = is_class.sum(axis=0)
        usable = np.flatnonzero((counts > 0) & (counts < len(targets)))
        usable = usable[usable == 1] if classes == 2 else usable
        if not len(usable):
            return math.nan
        ranks = rankdata(probabilities[:, usable], axis=0)
        counts = counts[usable]
        above = (ranks * is_class[:, usable]).sum(axis=0) - counts * (counts + 1) / 2
        return float((above / (counts * (len(targets) - counts))).mean())


class CalibrationError(ProbabilityMetric):
    """The expected calibration error of ten bins, in points of a percentage; see `Calibration`."""

    name, unit, lower_is_better = "calibration_error", "%", True
    note = "expected calibration error, ten bins"

    def of_probabilities(
        self,
        probabilities: Float[np.ndarray, "items classes"],
        targets: Int64[np.ndarray, " items"],
    ) -> float:
        if not len(targets):
            return math.nan
        correct = probabilities.argmax(axis=1) == targets
        confidence = probabilities.max(axis=1).clip(0.0, 1.0)
        return 100 * Calibration.of(confidence, correct).expected_calibration_error


class HopOverlap(ModelMetric):
    """The mean overlap of the attention of two hops; 1 if all hops read the same words."""

    name, lower_is_better, digits = "hop_overlap", True, 3


# With more labels, the matrix does not fit a terminal: the most frequent confusions are listed.
MAX_COLUMNS = 12
MAX_HEADING = 10
MAX_CONFUSIONS = 10


class LabelScore(NamedTuple):
    """Scores of one label in percent, NaN where undefined, and its number of items."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


class ConfusedPair(NamedTuple):
    """How often items of one label were predicted as another."""

    true: str
    predicted: str
    times: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionMatrix:
    """`counts[i, j]` is the number of items of label i that were predicted as label j."""

    labels: tuple[str, ...]
    counts: Int64[np.ndarray, "labels labels"]

    @classmethod
    def of(
        cls,
        predictions: Sequence[str],
        targets: Sequence[str],
        *,
        labels: Sequence[str] | None = None,
    ) -> Self:
        """From predicted and true labels; `labels` defaults to all that occur, sorted."""
        if len(predictions) != len(targets):
            raise RegardError(
                f"There are {len(predictions):,} predicted labels and {len(targets):,} true labels. "
                "Give one of each per item."
            )
        if not targets:
            raise RegardError("There is nothing to score: no item has a label. Give one or more.")
        occurring = {*predictions, *targets}
        known = tuple(sorted(occurring) if labels is None else labels)
        if unknown := sorted(occurring - set(known)):
            raise RegardError(
                f"Label '{unknown[0]}' is not one of labels={', '.join(known)}. "
                "Add it, or omit labels."
            )
        number_of = {label: number for number, label in enumerate(known)}
        counts = np.zeros((len(known), len(known)), dtype=np.int64)
        rows, columns = ([number_of[label] for label in side] for side in (targets, predictions))
        np.add.at(counts, (rows, columns), 1)
        return cls(labels=known, counts=counts)

    @property
    def accuracy(self) -> float:
        """Accuracy in percent."""
        return 100 * float(np.trace(self.counts) / self.counts.sum())

    def label_scores(self) -> list[LabelScore]:
        """Precision, recall and F1 of every label, in order."""
        hits = np.diagonal(self.counts)
        predicted, true = self.counts.sum(axis=0), self.counts.sum(axis=1)
        return [
            LabelScore(label, _percent(h, p), _percent(h, t), _percent(2 * h, p + t), t)
            for label, h, p, t in zip(
                self.labels, hits.tolist(), predicted.tolist(), true.tolist(), strict=True
            )
        ]

    def confusions(self, *, most: int = MAX_CONFUSIONS) -> list[ConfusedPair]:
        """The most frequent confusions, in descending order."""
        wrong = self.counts - np.diag(np.diagonal(self.counts))
        found = [
            ConfusedPair(self.labels[row], self.labels[column], int(wrong[row, column]))
            for row, column in np.argwhere(wrong)
        ]
        return sorted(found, key=lambda pair: (-pair.times, *pair[:2]))[:most]

    def as_json(self) -> dict[str, Any]:
        """All results as JSON values; undefined scores are null."""
        scores = [
            {name: _or_none(value) for name, value in score._asdict().items()}
            for score in self.label_scores()
        ]
        return {
            "labels": list(self.labels),
            "counts": self.counts.tolist(),
            "accuracy": self.accuracy,
            "by_label": scores,
        }

    def table(self) -> str:
        """The scores of every label, and the matrix or, with many labels, the most frequent confusions."""
        scores = [
            [
                s.label,
                *("–" if math.isnan(share) else f"{share:.1f}" for share in s[1:4]),
                f"{s.support:,}",
            ]
            for s in self.label_scores()
        ]
        parts = [_table([["label", "precision", "recall", "F1", "items"], *scores])]
        if len(self.labels) <= MAX_COLUMNS:
            heads = [truncate(label, MAX_HEADING) for label in self.labels]
            rows = [[label, *map(str, row)] for label, row in zip(heads, self.counts, strict=True)]
            parts.append(_table([["true \\ predicted", *heads], *rows]))
        elif found := self.confusions():
            rows = [[pair.true, pair.predicted, f"{pair.times:,}"] for pair in found]
            parts.append(_table([["true", "predicted", "times"], *rows]))
        return "\n\n".join(parts)


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else math.nan


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(aligned(rows, left=(0,)))


BINS = 10
EPSILON = float(np.finfo(np.float64).eps)


class ReliabilityBin(NamedTuple):
    """The predictions with low < p ≤ high; the means are None in an empty bin."""

    low: float
    high: float
    items: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Calibration of a classifier; `confidence` is the mean p, `accuracy` a fraction."""

    items: int
    confidence: float
    accuracy: float
    expected_calibration_error: float
    brier_score: float
    log_loss: float
    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def of(
        cls,
        confidence: Float[np.ndarray, " items"],
        correct: Bool[np.ndarray, " items"],
        *,
        bins: int = BINS,
    ) -> Self:
        """From the confidence of each prediction, and whether it is correct."""
        _validate(confidence, bins=bins)
        p, hit = confidence.astype(np.float64), correct.astype(np.float64)
        # Compare with the edges, so that rounding does not move a probability of exactly 0.3.
        edges = np.arange(bins + 1) / bins
        number = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, bins - 1)
        counts = np.bincount(number, minlength=bins)
        p_sums = np.bincount(number, weights=p, minlength=bins)
        hit_sums = np.bincount(number, weights=hit, minlength=bins)
        clipped = np.clip(p, EPSILON, 1 - EPSILON)
        return cls(
            items=len(p),
            confidence=float(p.mean()),
            accuracy=float(hit.mean()),
            # n_bin · |accuracy − mean p| is the difference of the sums.
            expected_calibration_error=float(np.abs(hit_sums - p_sums).sum() / len(p)),
            brier_score=float(np.square(p - hit).mean()),
            log_loss=float(-np.log(np.where(correct, clipped, 1 - clipped)).mean()),
            bins=tuple(
                ReliabilityBin(
                    low=float(edges[index]),
                    high=float(edges[index + 1]),
                    items=int(count),
                    confidence=float(p_sums[index] / count) if count else None,
                    accuracy=float(hit_sums[index] / count) if count else None,
                )
                for index, count in enumerate(counts)
            ),
        )

    def as_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return {**asdict(self), "bins": [each._asdict() for each in self.bins]}

    def describe(self) -> str:
        """The results in one line."""
        kind = "overconfident" if self.confidence > self.accuracy else "underconfident"
        gap = 100 * abs(self.confidence - self.accuracy)
        return (
            f"mean confidence {100 * self.confidence:.1f} %, accuracy {100 * self.accuracy:.1f} %: "
            f"{gap:.1f} points {kind}; expected calibration error "
            f"{100 * self.expected_calibration_error:.1f} points ({len(self.bins)} equal bins), "
            f"Brier score {self.brier_score:.3f}, log loss {self.log_loss:.3f}"
        )


def _validate(confidence: Float[np.ndarray, " items"], *, bins: int) -> None:
    if bins < 1:
        raise RegardError(f"bins={bins}: the number of bins must be 1 or more.")
    if not len(confidence):
        raise RegardError("There is nothing to calibrate: no predictions. Give one or more.")
    outside = ~((confidence >= 0) & (confidence <= 1))
    if outside.any():
        item = int(outside.argmax())
        raise RegardError(
            f"Item {item} has the probability {confidence[item]}, which must be from 0 to 1. "
            "Give probabilities, not logits."
        )
