"""Accuracy, exact match, macro-F1 and perplexity.

Accuracies and F1 are in percent. Each is computed from per-item statistics, so that it can be taken of
any resample of the items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.core.errors import RegardError

MAX_NATS = 700.0  # the exponential of more overflows


def exact_matches(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> list[tuple[float, float]]:
    """Per item: 1 if the prediction is one of the references, and the count 1.

    >>> exact_matches(["a", "b"], [["a"], ["c"]])
    [(1.0, 1.0), (0.0, 1.0)]
    """
    pairs = zip(predictions, references, strict=True)
    return [(float(prediction in choices), 1.0) for prediction, choices in pairs]


def exact_match(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The percentage of predictions that are one of their references.

    >>> exact_match(["a", "b"], [["a"], ["c"]])
    50.0
    """
    hits = [hit for hit, _ in exact_matches(predictions, references)]
    return 100.0 * sum(hits) / max(1, len(hits))


def token_matches(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> list[tuple[float, float]]:
    """Per item: tokens that equal the first reference at their position, and its number of tokens.

    >>> token_matches(["the cat"], [["a cat sat"]])
    [(1.0, 3.0)]
    """
    found = []
    for prediction, choices in zip(predictions, references, strict=True):
        target = choices[0].split()
        same = sum(one == other for one, other in zip(prediction.split(), target, strict=False))
        found.append((float(same), float(len(target))))
    return found


def label_counts(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> list[list[float]]:
    """Per item, for each label in sorted order: true positives, predicted, true.

    The labels are those that occur in the predictions or first references: count several models together.

    >>> label_counts(["a", "a"], [["a"], ["b"]])
    [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]]
    """
    targets = [choices[0] for choices in references]
    labels = sorted({*predictions, *targets})
    return [
        [
            float(count)
            for label in labels
            for count in (prediction == target == label, prediction == label, target == label)
        ]
        for prediction, target in zip(predictions, targets, strict=True)
    ]


def macro_f1(sums: Float[np.ndarray, "*samples k"]) -> Float[np.ndarray, "*samples"]:
    """Mean F1 over labels, in percent, from sums of `label_counts`.

    As in scikit-learn, a label that is predicted but never true has an F1 of 0. NaN without labels.

    >>> macro_f1(np.array([1.0, 2.0, 1.0, 0.0, 0.0, 1.0])).round(1).item()
    33.3
    """
    hits, predicted, true = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
    counted = predicted + true > 0
    of_label = np.divide(2 * hits, predicted + true, out=np.zeros_like(hits), where=counted)
    labels = counted.sum(axis=-1)
    undefined = np.full(labels.shape, np.nan)
    mean = np.divide(of_label.sum(axis=-1), labels, out=undefined, where=labels > 0)
    return np.asarray(100 * mean)


def validate_references(references: Sequence[Sequence[str]]) -> None:
    """Raise if no item has a reference."""
    if not any(choices and choices[0] for choices in references):
        raise RegardError("There is nothing to score: no item has a reference. Give one or more.")


def perplexity(nats: float) -> float:
    """The exponential of a mean loss per token.

    >>> round(perplexity(math.log(8)), 6)
    8.0
    """
    return math.exp(min(nats, MAX_NATS))
