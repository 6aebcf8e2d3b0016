"""Metrics of language models: bits per character, accuracy on masked tokens, perplexity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.tasks.metrics.metric import ModelMetric, RatioMetric, only

MAX_NATS = 700.0  # the exponential of more overflows


class BitsPerCharacter(RatioMetric):
    """Bits per character of whole texts, whose end counts as a character.

    The predictions are the negative log-likelihoods of the texts in nats.

    >>> BitsPerCharacter()([4 * math.log(2)], ["abc"])
    1.0
    """

    name, unit, lower_is_better, digits = "bits_per_character", "bits", True, 3

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Float[np.ndarray, "items 2"]:
        bits = np.array([float(nats) for nats in predictions]) / math.log(2)
        return np.stack([bits, [len(only(text)) + 1.0 for text in references]], axis=1)


class MaskedAccuracy(RatioMetric):
    """The percentage of masked tokens that are predicted; items are lists of tokens.

    >>> MaskedAccuracy()([["the", "cat"]], [["a", "cat"]])
    50.0
    """

    name, unit = "masked_accuracy", "%"

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Any]
    ) -> Float[np.ndarray, "items 2"]:
        rows = []
        for prediction, reference in zip(predictions, references, strict=True):
            found, target = _tokens(prediction), _tokens(only(reference))
            same = sum(one == other for one, other in zip(found, target, strict=False))
            rows.append((same, len(target)))
        return np.array(rows, dtype=np.float64)


def _tokens(tokens: str | Sequence[str]) -> Sequence[str]:
    return tokens.split() if isinstance(tokens, str) else tokens


class NextSentenceAccuracy(ModelMetric):
    """The percentage of sentence pairs classified correctly: consecutive, or from other texts."""

    name, unit = "next_sentence_accuracy", "%"


class Perplexity(ModelMetric):
    """The exponential of the mean loss per token."""

    name, lower_is_better = "perplexity", True

    @staticmethod
    def of(nats: float) -> float:
        """The perplexity at a mean loss per token.

        >>> round(Perplexity.of(math.log(8)), 6)
        8.0
        """
        return math.exp(min(nats, MAX_NATS))
