"""Error rates from edit (Levenshtein) distances: WER and PER of pronunciations, CER and WER of text.

Rates of pronunciations are in percent, as published, and take the best of several references; rates of
text are fractions. Both can exceed 100 %, since a prediction may be longer than its reference.

Every rate is a ratio of two sums over items, given per item as `ErrorCounts`, so that it can be taken of
any resample of the items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from regard.core.errors import RegardError


class ErrorCounts(NamedTuple):
    """Errors of one item, and the number of units they are counted against."""

    errors: float
    total: float


def word_error_rate(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> float:
    """The percentage of items whose prediction equals none of their references.

    >>> word_error_rate([["AH"], ["B"]], [[["EY"], ["AH"]], [["B", "IY"]]])
    50.0
    """
    return 100.0 * _rate(sequence_errors(predictions, references), unit="items")


def sequence_errors(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> list[ErrorCounts]:
    """Per item: 1 if the prediction equals none of the references, and the count 1."""
    _validate_references(predictions, references)
    return [
        ErrorCounts(float(list(prediction) not in [list(reference) for reference in choices]), 1.0)
        for prediction, choices in zip(predictions, references, strict=True)
    ]


def phone_error_rate(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> float:
    """All edits over the total length of the references, in percent.

    Each item is compared with the reference of fewest edits; ties go to the longest. The order of the
    references does not matter.

    >>> phone_error_rate([["AH", "T"], ["B"]], [[["EY"], ["AE", "T"]], [["B", "IY"]]])
    50.0
    """
    return 100.0 * _rate(nearest_edits(predictions, references), unit="phones")


def nearest_edits(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> list[ErrorCounts]:
    """Per item: edits to the reference that `phone_error_rate` chooses, and its length."""
    _validate_references(predictions, references)
    found = []
    for prediction, choices in zip(predictions, references, strict=True):
        edits, negative_length = min(
            (Levenshtein.distance(prediction, reference), -len(reference)) for reference in choices
        )
        found.append(ErrorCounts(edits, -negative_length))
    return found


def character_error_rate(predictions: Sequence[str], references: Sequence[str]) -> float:
    """CER: all edits over all characters of the references, a fraction.

    Characters are Unicode code points; case, spaces and accents count. Against an empty reference every
    predicted character is an edit. In `mean_character_error_rate` every sentence counts equally.

    >>> character_error_rate(["abcd", "x"], ["abcd", "y"])
    0.2
    """
    return _rate(character_edits(predictions, references), unit="characters")


def character_edits(predictions: Sequence[str], references: Sequence[str]) -> list[ErrorCounts]:
    """Per item: character edits, and the characters of the reference."""
    return _edits(predictions, references)


def mean_character_error_rate(predictions: Sequence[str], references: Sequence[str]) -> float:
    """The mean CER of sentences, a fraction.

    Often reported as CER, but a short sentence weighs as much as a long one. Against an empty reference
    the rate is 0 for an empty prediction, else 1.

    >>> mean_character_error_rate(["abcd", "x"], ["abcd", "y"])
    0.5
    """
    return _rate(character_rates(predictions, references), unit="sentences")


def character_rates(predictions: Sequence[str], references: Sequence[str]) -> list[ErrorCounts]:
    """Per item: its CER, and the count 1."""
    validate_pairs(predictions, references)
    return [
        ErrorCounts(
            Levenshtein.distance(prediction, reference) / len(reference)
            if reference
            else float(prediction != ""),
            1.0,
        )
        for prediction, reference in zip(predictions, references, strict=True)
    ]


def text_word_error_rate(predictions: Sequence[str], references: Sequence[str]) -> float:
    """WER: all word edits over all words of the references, a fraction. Words are split at white space.

    >>> text_word_error_rate(["the cat sat"], ["the  black cat sat"])
    0.25
    """
    return _rate(word_edits(predictions, references), unit="words")


def word_edits(predictions: Sequence[str], references: Sequence[str]) -> list[ErrorCounts]:
    """Per item: word edits, and the words of the reference."""
    return _edits(
        [prediction.split() for prediction in predictions],
        [reference.split() for reference in references],
    )


def validate_pairs(predictions: Sequence[object], references: Sequence[object]) -> None:
    """Raise unless there is one prediction per reference, and at least one."""
    if len(predictions) != len(references):
        raise RegardError(
            f"There are {len(predictions)} predictions for {len(references)} references. "
            "Give one prediction per reference, in the same order."
        )
    if not predictions:
        raise RegardError(
            "There is nothing to score: 0 predictions. Give at least one prediction and reference."
        )


def _validate_references(
    predictions: Sequence[object], references: Sequence[Sequence[object]]
) -> None:
    validate_pairs(predictions, references)
    for number, choices in enumerate(references, start=1):
        if not choices:
            raise RegardError(
                f"Item {number} has no references. Give each item at least one, or remove the item."
            )


def _edits(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> list[ErrorCounts]:
    validate_pairs(predictions, references)
    return [
        ErrorCounts(Levenshtein.distance(prediction, reference), len(reference))
        for prediction, reference in zip(predictions, references, strict=True)
    ]


def _rate(items: Sequence[ErrorCounts], *, unit: str) -> float:
    total = sum(item.total for item in items)
    if total == 0:
        raise RegardError(
            f"All references are empty, so the error rate over their {unit} is undefined. "
            "Give at least one that is not."
        )
    return sum(item.errors for item in items) / total
