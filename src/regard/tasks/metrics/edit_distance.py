"""Error rates that count edits: pronunciations with several right answers, and plain text.

An edit puts in, takes out or replaces one symbol; the edits between two sequences are the fewest that
turn one into the other (Levenshtein). Rates of pronunciations are in percent, as they are published;
rates of text are fractions. Both can pass the whole: a prediction may be longer than its reference.

Every rate is a ratio of two sums. What one item adds to them is a function of its own, so that a rate
can be taken of any choice of items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from regard.core.errors import RegardError


class ItemErrors(NamedTuple):
    """What one item adds to a rate: errors to the first sum, that out of which they are to the second."""

    errors: float
    out_of: float


def word_error_rate(
    predicted: Sequence[Sequence[str]], answers: Sequence[Sequence[Sequence[str]]]
) -> float:
    """The share of items, in percent, whose prediction equals none of their answers.

    >>> word_error_rate([["AH"], ["B"]], [[["EY"], ["AH"]], [["B", "IY"]]])
    50.0
    """
    return 100.0 * _rate(wrong_items(predicted, answers), unit="items")


def wrong_items(
    predicted: Sequence[Sequence[str]], answers: Sequence[Sequence[Sequence[str]]]
) -> list[ItemErrors]:
    """For each item 1 if its prediction equals none of its answers, out of 1."""
    _require_answers(predicted, answers)
    return [
        ItemErrors(float(list(guess) not in [list(answer) for answer in choices]), 1.0)
        for guess, choices in zip(predicted, answers, strict=True)
    ]


def phone_error_rate(
    predicted: Sequence[Sequence[str]], answers: Sequence[Sequence[Sequence[str]]]
) -> float:
    """All edits over the length of all answers, in percent, each item held against one answer.

    That answer is the one with the fewest edits; of several such the longest, whose rate is lowest.
    The order of the answers therefore does not matter.

    >>> phone_error_rate([["AH", "T"], ["B"]], [[["EY"], ["AE", "T"]], [["B", "IY"]]])
    50.0
    """
    return 100.0 * _rate(nearest_edits(predicted, answers), unit="phones")


def nearest_edits(
    predicted: Sequence[Sequence[str]], answers: Sequence[Sequence[Sequence[str]]]
) -> list[ItemErrors]:
    """For each item the edits to the answer that `phone_error_rate` chooses, out of its length."""
    _require_answers(predicted, answers)
    found = []
    for guess, choices in zip(predicted, answers, strict=True):
        edits, negative_length = min(
            (Levenshtein.distance(guess, answer), -len(answer)) for answer in choices
        )
        found.append(ItemErrors(edits, -negative_length))
    return found


def character_error_rate(predicted: Sequence[str], references: Sequence[str]) -> float:
    """All edits over all characters of the references, a fraction; long sentences count for more.

    Characters are Unicode code points, taken as they are: case, spaces and accents count. Against
    an empty reference every predicted character is an edit. `mean_character_error_rate` differs:
    there every sentence counts alike.

    >>> character_error_rate(["abcd", "x"], ["abcd", "y"])
    0.2
    """
    return _rate(character_edits(predicted, references), unit="characters")


def character_edits(predicted: Sequence[str], references: Sequence[str]) -> list[ItemErrors]:
    """For each item the edits of characters, out of those of its reference."""
    return _edits(predicted, references)


def mean_character_error_rate(predicted: Sequence[str], references: Sequence[str]) -> float:
    """The mean over sentences of edits over characters, a fraction.

    The mean is what is often reported. A short sentence weighs as much as a long one, so it is not
    `character_error_rate`. An empty reference has a rate of 0 if the prediction is empty too, else 1.

    >>> mean_character_error_rate(["abcd", "x"], ["abcd", "y"])
    0.5
    """
    return _rate(character_rates(predicted, references), unit="sentences")


def character_rates(predicted: Sequence[str], references: Sequence[str]) -> list[ItemErrors]:
    """For each item its own rate, as `mean_character_error_rate` takes it, out of 1."""
    require_pairs(predicted, references)
    return [
        ItemErrors(
            Levenshtein.distance(guess, reference) / len(reference)
            if reference
            else float(guess != ""),
            1.0,
        )
        for guess, reference in zip(predicted, references, strict=True)
    ]


def text_word_error_rate(predicted: Sequence[str], references: Sequence[str]) -> float:
    """All edits of words over all words of the references, a fraction. White space parts words.

    >>> text_word_error_rate(["the cat sat"], ["the  black cat sat"])
    0.25
    """
    return _rate(word_edits(predicted, references), unit="words")


def word_edits(predicted: Sequence[str], references: Sequence[str]) -> list[ItemErrors]:
    """For each item the edits of words, out of those of its reference."""
    return _edits(
        [guess.split() for guess in predicted], [reference.split() for reference in references]
    )


def require_pairs(predicted: Sequence[object], references: Sequence[object]) -> None:
    """Refuse predictions and references that cannot be held against each other."""
    if len(predicted) != len(references):
        raise RegardError(
            f"There are {len(predicted)} predictions for {len(references)} references. "
            "Give one prediction a reference, in the same order."
        )
    if not predicted:
        raise RegardError(
            "There is nothing to score: 0 predictions. Give at least one prediction and reference."
        )


def _require_answers(predicted: Sequence[object], answers: Sequence[Sequence[object]]) -> None:
    require_pairs(predicted, answers)
    for number, choices in enumerate(answers, start=1):
        if not choices:
            raise RegardError(
                f"Item {number} has no answers. Give each item at least one, or leave the item out."
            )


def _edits(
    predicted: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> list[ItemErrors]:
    require_pairs(predicted, references)
    return [
        ItemErrors(Levenshtein.distance(guess, reference), len(reference))
        for guess, reference in zip(predicted, references, strict=True)
    ]


def _rate(items: Sequence[ItemErrors], *, unit: str) -> float:
    out_of = sum(item.out_of for item in items)
    if out_of == 0:
        raise RegardError(
            f"All references are empty, so there is no rate of errors over their {unit}. "
            "Give at least one reference that is not."
        )
    return sum(item.errors for item in items) / out_of
