"""Confusion matrix, and precision, recall and F1 of each label, in percent.

             predicted a   predicted b
    true a        8             2          recall of a: 8 of the 10 that are a
    true b        1             4          precision of a: 8 of the 9 predicted as a

F1 is the harmonic mean of precision and recall, 2 · correct / (predicted + true). A score with a zero
denominator is undefined (NaN) rather than 0; `accuracy.macro_f1` is the mean F1 over the other labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError

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
        parts = [_aligned([["label", "precision", "recall", "F1", "items"], *scores])]
        if len(self.labels) <= MAX_COLUMNS:
            heads = [_shortened(label) for label in self.labels]
            rows = [[label, *map(str, row)] for label, row in zip(heads, self.counts, strict=True)]
            parts.append(_aligned([["true \\ predicted", *heads], *rows]))
        elif found := self.confusions():
            rows = [[pair.true, pair.predicted, f"{pair.times:,}"] for pair in found]
            parts.append(_aligned([["true", "predicted", "times"], *rows]))
        return "\n\n".join(parts)


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else math.nan


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _shortened(label: str) -> str:
    return label if len(label) <= MAX_HEADING else f"{label[: MAX_HEADING - 1]}…"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    for row, line in zip(rows, lines, strict=True):
        line[0] = row[0].ljust(widths[0])
    return "\n".join("  ".join(line) for line in lines)
