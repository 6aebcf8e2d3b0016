"""Which label was taken for which: a row a right label, a column a predicted one.

              said a   said b
    right a      8        2        recall of a: 8 of the 10 that are a
    right b      1        4        precision of a: 8 of the 9 that are said to be a

F1 is the harmonic mean of precision and recall, 2 · right / (said + wanted). Shares are in percent. Where
nothing was said or wanted there is no share, rather than one of 0; `right_scores.macro_f1` is the mean of
F1 over the labels that have one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError

# More labels than this make a matrix that no terminal shows; then mistakes are listed instead.
WIDEST = 12
LONGEST_HEADING = 10
MISTAKES = 10


class LabelScore(NamedTuple):
    """Percentages of one label, not a number where undefined, and how many items are of it."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


class Mistake(NamedTuple):
    """How often one label was said where another was right."""

    right: str
    said: str
    times: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Confusion:
    """`counts[i, j]`: how often label j was said of what is of label i."""

    labels: tuple[str, ...]
    counts: Int64[np.ndarray, "labels labels"]

    @classmethod
    def of(
        cls, predicted: Sequence[str], right: Sequence[str], *, labels: Sequence[str] | None = None
    ) -> Self:
        """From what was said and what is right, item by item; without `labels`, those met, sorted."""
        if len(predicted) != len(right):
            raise RegardError(
                f"There are {len(predicted):,} predicted labels and {len(right):,} right ones. "
                "Give one of each for every item."
            )
        if not right:
            raise RegardError("There is nothing to score: no item has a label. Give one or more.")
        met = {*predicted, *right}
        known = tuple(sorted(met) if labels is None else labels)
        if unknown := sorted(met - set(known)):
            raise RegardError(
                f"Label '{unknown[0]}' is not among the labels to be counted: {', '.join(known)}. "
                "Name it there, or leave the labels out."
            )
        number_of = {label: number for number, label in enumerate(known)}
        counts = np.zeros((len(known), len(known)), dtype=np.int64)
        places = [[number_of[label] for label in side] for side in (right, predicted)]
        np.add.at(counts, (places[0], places[1]), 1)
        return cls(labels=known, counts=counts)

    @property
    def accuracy(self) -> float:
        """The share of right labels, in percent."""
        return 100 * float(np.trace(self.counts) / self.counts.sum())

    def label_scores(self) -> list[LabelScore]:
        """Precision, recall and F1 of every label, in the order of the labels."""
        hits = np.diagonal(self.counts)
        said, wanted = self.counts.sum(axis=0), self.counts.sum(axis=1)
        return [
            LabelScore(label, _share(h, s), _share(h, w), _share(2 * h, s + w), w)
            for label, h, s, w in zip(
                self.labels, hits.tolist(), said.tolist(), wanted.tolist(), strict=True
            )
        ]

    def mistakes(self, *, most: int = MISTAKES) -> list[Mistake]:
        """The commonest confusions, the commonest first."""
        wrong = self.counts - np.diag(np.diagonal(self.counts))
        found = [
            Mistake(self.labels[row], self.labels[column], int(wrong[row, column]))
            for row, column in np.argwhere(wrong)
        ]
        return sorted(found, key=lambda mistake: (-mistake.times, *mistake[:2]))[:most]

    def as_json(self) -> dict[str, Any]:
        """Everything as a record keeps it; what is undefined is null."""
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
        """The scores of every label, and the matrix or, of many labels, the commonest mistakes."""
        scores = [
            [
                s.label,
                *("–" if math.isnan(share) else f"{share:.1f}" for share in s[1:4]),
                f"{s.support:,}",
            ]
            for s in self.label_scores()
        ]
        parts = [_aligned([["label", "precision", "recall", "F1", "items"], *scores])]
        if len(self.labels) <= WIDEST:
            heads = [_shortened(label) for label in self.labels]
            rows = [[label, *map(str, row)] for label, row in zip(heads, self.counts, strict=True)]
            parts.append(_aligned([["right \\ said", *heads], *rows]))
        elif found := self.mistakes():
            rows = [[m.right, m.said, f"{m.times:,}"] for m in found]
            parts.append(_aligned([["right", "taken for", "times"], *rows]))
        return "\n\n".join(parts)


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else math.nan


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_HEADING else f"{label[: LONGEST_HEADING - 1]}…"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    for row, line in zip(rows, lines, strict=True):
        line[0] = row[0].ljust(widths[0])
    return "\n".join("  ".join(line) for line in lines)
