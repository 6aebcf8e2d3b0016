"""Scores that count what is right: labels of texts, and tokens at places. All are in percent.

What one item adds is given for each, so that a score can be taken of any choice of items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.core.errors import RegardError


def right_labels(
    predicted: Sequence[str], answers: Sequence[Sequence[str]]
) -> list[tuple[float, float]]:
    """For each item 1 if its label is an answer, out of 1.

    >>> right_labels(["a", "b"], [["a"], ["c"]])
    [(1.0, 1.0), (0.0, 1.0)]
    """
    pairs = zip(predicted, answers, strict=True)
    return [(float(guess in choices), 1.0) for guess, choices in pairs]


def right_places(
    predicted: Sequence[str], answers: Sequence[Sequence[str]]
) -> list[tuple[float, float]]:
    """For each item the words that stand where its first answer has them, out of the answer's words.

    >>> right_places(["the cat"], [["a cat sat"]])
    [(1.0, 3.0)]
    """
    found = []
    for guess, choices in zip(predicted, answers, strict=True):
        wanted = choices[0].split()
        same = sum(word == right for word, right in zip(guess.split(), wanted, strict=False))
        found.append((float(same), float(len(wanted))))
    return found


def label_counts(predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> list[list[float]]:
    """For each item and each label that is predicted or a first answer, sorted: right, predicted, wanted.

    Which labels that are depends on the predictions: those of several models are counted together.

    >>> label_counts(["a", "a"], [["a"], ["b"]])
    [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]]
    """
    wanted = [choices[0] for choices in answers]
    labels = sorted({*predicted, *wanted})
    return [
        [
            float(count)
            for label in labels
            for count in (guess == right == label, guess == label, right == label)
        ]
        for guess, right in zip(predicted, wanted, strict=True)
    ]


def macro_f1(sums: Float[np.ndarray, "*samples k"]) -> Float[np.ndarray, "*samples"]:
    """The mean over labels of 2 · right / (predicted + wanted), in percent; sums as `label_counts`.

    A label counts if some item wants it or is said to be of it, as in scikit-learn: one that is only said
    has an F1 of 0. Of nothing it is not a number.

    >>> macro_f1(np.array([1.0, 2.0, 1.0, 0.0, 0.0, 1.0])).round(1).item()
    33.3
    """
    right, predicted, wanted = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
    counted = predicted + wanted > 0
    of_label = np.divide(2 * right, predicted + wanted, out=np.zeros_like(right), where=counted)
    labels = counted.sum(axis=-1)
    nothing = np.full(labels.shape, np.nan)
    return np.asarray(100 * np.divide(of_label.sum(axis=-1), labels, out=nothing, where=labels > 0))


def require_answers(answers: Sequence[Sequence[str]]) -> None:
    """Refuse to score nothing."""
    if not any(choices and choices[0] for choices in answers):
        raise RegardError("There is nothing to score: no item has an answer. Give one or more.")


# Perplexity: among how many equally likely tokens a model is left to guess, on average.


MOST_NATS = 700.0  # e to more than this is no number any more


def perplexity(nats: float) -> float:
    """Of a mean loss in nats a token.

    >>> round(perplexity(math.log(8)), 6)
    8.0
    """
    return math.exp(min(nats, MOST_NATS))
