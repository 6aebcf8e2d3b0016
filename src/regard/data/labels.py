"""Class labels: their ids and names, class balance, and validation before training starts.

3 labels in 10 texts (a 6, b 3, c 1): most frequent 'a' (60.0 %, the majority baseline), least frequent 'c'
(10.0 %), imbalance ratio 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from regard.core.batches import IGNORE_INDEX
from regard.core.errors import RegardError
from regard.data.readers.text_file import Reader, Row, RowErrors

# From this imbalance ratio on, accuracy alone says little about rare labels.
IMBALANCED = 3.0
BALANCED = 1.05
# With at least so many texts, so many distinct labels per text, or labels with so many words on average
# of which half differ, the label column is probably wrong.
MIN_TEXTS = 10
MAX_DISTINCT_FRACTION = 0.9
MIN_WORDS_OF_TEXT = 5
MAX_SHOWN_LENGTH = 40
MAX_SHOWN_LABELS = 5
MAX_SHOWN_COUNTS = 10


@dataclass(frozen=True)
class Labels:
    """The labels in the order of their class ids."""

    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def encode(self, label: str) -> int:
        """The class id of a label; IGNORE_INDEX if it is unknown."""
        return self._number_of.get(label, IGNORE_INDEX)

    def as_json(self) -> dict[str, Any]:
        """The labels as JSON values."""
        return {"kind": "labels", "labels": list(self.labels)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Load the output of `as_json`."""
        labels = record.get("labels")
        if (
            not isinstance(labels, list)
            or not all(isinstance(label, str) for label in labels)
            or len(set(labels)) < len(labels)
        ):
            raise RegardError(
                "Invalid preprocessor: 'labels' is not a list of distinct strings. Restore the original "
                "file, or train again."
            )
        return cls(tuple(labels))


@dataclass(frozen=True)
class NamedLabels:
    """A reader whose labels 0, 1, 2, … have these names; a label that is a name is kept."""

    reader: Reader
    names: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file."""
        return self.reader.path

    @property
    def notice(self) -> str:
        """The note of the reader."""
        return str(getattr(self.reader, "notice", ""))

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """The rows with names of labels; a label without a name is an error."""
        name_of = {str(number): name for number, name in enumerate(self.names)}
        name_of |= {name: name for name in self.names}
        for row in self.reader.rows(errors=errors):
            if row.target in name_of:
                yield row._replace(target=name_of[row.target])
                continue
            reason = (
                f"label without a name: '{short_label(row.target)}', but task.label_names has names of "
                f"the labels 0 to {len(self.names) - 1}"
            )
            errors.report(path=self.path, line=row.line, reason=reason, hint="Add its name")


@dataclass(frozen=True, kw_only=True)
class ClassBalance:
    """Number of items of each label, in descending order; ties in alphabetical order."""

    counts: dict[str, int]

    @classmethod
    def of(cls, labels: Iterable[str]) -> Self:
        """From the label of every item."""
        found = Counter(labels)
        if not found:
            raise RegardError("There are no labels to count. Give one item or more.")
        return cls(counts=dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))))

    @property
    def total(self) -> int:
        """Number of items."""
        return sum(self.counts.values())

    @property
    def most_frequent(self) -> str:
        """The majority class."""
        return next(iter(self.counts))

    @property
    def least_frequent(self) -> str:
        """The minority class."""
        return next(reversed(self.counts))

    @property
    def majority_percent(self) -> float:
        """The accuracy of the majority baseline, in percent."""
        return 100 * self.counts[self.most_frequent] / self.total

    @property
    def imbalance_ratio(self) -> float:
        """Items of the most frequent label per item of the least frequent."""
        return self.counts[self.most_frequent] / self.counts[self.least_frequent]

    def describe(self, unit: str = "texts") -> str:
        """The balance in one sentence.

        >>> ClassBalance.of("aab").describe()[:68]
        "2 labels in 3 texts (a 2, b 1): most frequent 'a' (66.7 %, the major"
        """
        shown = [f"{short_label(label)} {count:,}" for label, count in self.counts.items()]
        more = ["…"] if len(shown) > MAX_SHOWN_COUNTS else []
        counts = ", ".join(shown[:MAX_SHOWN_COUNTS] + more)
        labels = f"{len(self.counts):,} labels in {self.total:,} {unit} ({counts})"
        majority = f"{self.majority_percent:.1f} %"
        if len(self.counts) == 1:
            return f"1 label in {self.total:,} {unit}: '{self.most_frequent}', nothing to classify."
        if self.imbalance_ratio < BALANCED:
            balanced = "balanced" if self.imbalance_ratio == 1 else "nearly balanced"
            return f"{labels}, {balanced}: majority baseline {majority}."
        minority = 100 * self.counts[self.least_frequent] / self.total
        advice = "; report macro-F1 beside accuracy" if self.imbalance_ratio >= IMBALANCED else ""
        return (
            f"{labels}: most frequent '{self.most_frequent}' ({majority}, the majority baseline), least "
            f"frequent '{self.least_frequent}' ({minority:.1f} %), imbalance ratio "
            f"{self.imbalance_ratio:.3g}{advice}."
        )

    def as_json(self) -> dict[str, Any]:
        """The balance as JSON values."""
        return {
            "counts": self.counts,
            "most_frequent": self.most_frequent,
            "majority_percent": self.majority_percent,
            "least_frequent": self.least_frequent,
            "imbalance_ratio": self.imbalance_ratio,
        }


COLUMN_HINT = "Check the columns (--source-column, --target-column) and the format."


def validate_labels(labels: Collection[str], path: Path, *, hint: str = COLUMN_HINT) -> None:
    """Raise if there are fewer than two labels; `hint` is the way out."""
    if len(labels) < 2:
        count = "1 label" if len(labels) == 1 else "no labels"
        raise RegardError(
            f"The training split of '{path}' has {count}; classification needs two or more. {hint}"
        )


def validate_label_column(counts: Counter[str], path: Path) -> None:
    """Raise if the labels look like texts or row numbers: almost every one occurs once."""
    texts = counts.total()
    if texts < MIN_TEXTS:
        return
    words = sum(len(label.split()) * count for label, count in counts.items()) / texts
    are_texts = words >= MIN_WORDS_OF_TEXT and len(counts) > texts / 2
    if len(counts) >= MAX_DISTINCT_FRACTION * texts or are_texts:
        raise RegardError(
            f"The {texts:,} training rows of '{path}' have {len(counts):,} different labels, such as "
            f"'{short_label(next(iter(counts)))}': the label column looks like texts, or like row "
            "numbers. Set the label column with --target-column, and the text with --source-column."
        )


def unseen_labels_note(
    targets: Sequence[str], known: Collection[str], *, unit: str = "texts"
) -> str:
    """A note on items whose label the model was not trained on; empty if there are none.

    >>> unseen_labels_note(["meh", "good"], ["bad", "good"])
    '1 of 2 texts with a label unseen in training: meh; counted as errors, without loss'
    """
    unknown = Counter(label for label in targets if label not in known)
    if not unknown:
        return ""
    named = [short_label(label) for label, _ in unknown.most_common(MAX_SHOWN_LABELS)]
    if len(unknown) > MAX_SHOWN_LABELS:
        named.append(f"and {len(unknown) - MAX_SHOWN_LABELS:,} more")
    a_label = "a label" if unknown.total() == 1 else "labels"
    return (
        f"{unknown.total():,} of {len(targets):,} {unit} with {a_label} unseen in training: "
        f"{', '.join(named)}; counted as errors, without loss"
    )


def short_label(label: str) -> str:
    """A label as messages show it, shortened.

    >>> short_label("Story tedious story, and no end of it at all")
    'Story tedious story, and no end of it a…'
    """
    return label if len(label) <= MAX_SHOWN_LENGTH else f"{label[: MAX_SHOWN_LENGTH - 1]}…"
