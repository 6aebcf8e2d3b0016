"""Exact match, and error rates from edit (Levenshtein) distances: PER, CER and WER.

Where an item has several references, it is compared with the one of fewest edits; ties go to the longest.
PER is in percent, CER and WER are fractions, as each is published. They can exceed 100 %, since a
prediction may be longer than its reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from rapidfuzz.distance import Levenshtein

from regard.tasks.metrics.metric import RatioMetric, validate_choices

Texts = Sequence[str]
References = Sequence[Sequence[str]]


class ExactMatch(RatioMetric):
    """The percentage of predictions that are one of their references, up to white space.

    >>> ExactMatch()(["AH", "B"], [("EY", "AH"), ("B IY",)])
    50.0
    """

    name, unit = "exact_match", "%"

    def statistics(
        self, predictions: Texts, references: References
    ) -> Float[np.ndarray, "items 2"]:
        validate_choices(references)
        hits = [
            prediction.split() in [reference.split() for reference in choices]
            for prediction, choices in zip(predictions, references, strict=True)
        ]
        return np.stack([np.array(hits, dtype=np.float64), np.ones(len(hits))], axis=1)


class ExactMatchError(ExactMatch):
    """The percentage of predictions that are none of their references."""

    name, lower_is_better = "exact_match_error", True
    note = "items whose prediction is none of the references; G2P papers call it WER"

    def statistics(
        self, predictions: Texts, references: References
    ) -> Float[np.ndarray, "items 2"]:
        hits = super().statistics(predictions, references)
        return np.stack([1.0 - hits[:, 0], hits[:, 1]], axis=1)


class EditRate(RatioMetric):
    """All edits over the total length of the references, in the symbols of `split`."""

    lower_is_better, digits = True, 4

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """The symbols of a text: its words."""
        return text.split()

    def statistics(
        self, predictions: Texts, references: References
    ) -> Float[np.ndarray, "items 2"]:
        validate_choices(references)
        return np.array(
            [
                self.of_item(self.split(prediction), [self.split(text) for text in choices])
                for prediction, choices in zip(predictions, references, strict=True)
            ],
            dtype=np.float64,
        )

    def of_item(
        self, prediction: Sequence[str], references: Sequence[Sequence[str]]
    ) -> tuple[float, float]:
        """Edits to the nearest reference, and its length."""
        edits, negative_length = min(
            (Levenshtein.distance(prediction, reference), -len(reference))
            for reference in references
        )
        return float(edits), float(-negative_length)


class WordErrorRate(EditRate):
    """WER: all word edits over all words of the references, a fraction. Words are split at white space.

    >>> WordErrorRate()(["the cat sat"], [("the  black cat sat",)])
    0.25
    """

    name, note = "wer", "word edits over words of the references, a fraction"


class PhoneErrorRate(EditRate):
    """PER: all edits over all phones of the references, in percent.

    >>> PhoneErrorRate()(["AH T", "B"], [("EY", "AE T"), ("B IY",)])
    50.0
    """

    name, unit, digits = "per", "%", 2
    note = "phone edits over phones of the nearest reference"


class CharacterErrorRate(EditRate):
    """CER: all edits over all characters of the references, a fraction.

    Characters are Unicode code points; case, spaces and accents count. Against an empty reference every
    predicted character is an edit.

    >>> CharacterErrorRate()(["abcd", "x"], [("abcd",), ("y",)])
    0.2
    """

    name, note = "cer", "character edits over characters of the references, a fraction"

    @staticmethod
    def split(text: str) -> Sequence[str]:
        return text


class MeanCharacterErrorRate(CharacterErrorRate):
    """The mean CER of sentences, a fraction: a short sentence weighs as much as a long one.

    Often reported as CER. Against an empty reference the rate is 0 for an empty prediction, else 1.

    >>> MeanCharacterErrorRate()(["abcd", "x"], [("abcd",), ("y",)])
    0.5
    """

    name, note = "mean_cer", "mean over items of their character error rates"

    def of_item(
        self, prediction: Sequence[str], references: Sequence[Sequence[str]]
    ) -> tuple[float, float]:
        """The lowest rate, and the count 1."""
        rates = (
            Levenshtein.distance(prediction, reference) / len(reference)
            if reference
            else float(len(prediction) > 0)
            for reference in references
        )
        return min(rates), 1.0
