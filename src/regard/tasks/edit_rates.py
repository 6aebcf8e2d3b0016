"""Error rates that count edits: pronunciations with several right answers, and plain text.

An edit puts in, takes out or replaces one symbol; the edits between two sequences are the fewest that
turn one into the other (Levenshtein). Rates of pronunciations are in percent, as they are published;
rates of text are fractions. Both can pass the whole: a prediction may be longer than its reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from regard.core.errors import RegardError


def word_error_rate(
    predicted: Sequence[Sequence[str]], answers: Sequence[Sequence[Sequence[str]]]
) -> float:
    """The share of items, in percent, whose prediction equals none of their answers.

    >>> word_error_rate([["AH"], ["B"]], [[["EY"], ["AH"]], [["B", "IY"]]])
    50.0
    """
    _require_answers(predicted, answers)
    wrong = sum(
        list(guess) not in [list(answer) for answer in choices]
        for guess, choices in zip(predicted, answers, strict=True)
    )
    return 100.0 * wrong / len(predicted)


def phone_error_rate(
    predicted: Sequence[Sequence[str]], answers: Sequence[Sequence[Sequence[str]]]
) -> float:
    """All edits over the length of all answers, in percent, each item held against one answer.

    That answer is the one with the fewest edits; of several such the longest, whose rate is lowest.
    The order of the answers therefore does not matter.

    >>> phone_error_rate([["AH", "T"], ["B"]], [[["EY"], ["AE", "T"]], [["B", "IY"]]])
    50.0
    """
    _require_answers(predicted, answers)
    edits = length = 0
    for guess, choices in zip(predicted, answers, strict=True):
        fewest, longest = min(
            (Levenshtein.distance(guess, answer), -len(answer)) for answer in choices
        )
        edits += fewest
        length -= longest
    return 100.0 * _share(edits, length, unit="phones")


def character_error_rate(predicted: Sequence[str], references: Sequence[str]) -> float:
    """All edits over all characters of the references, a fraction; long sentences count for more.

    Characters are Unicode code points, taken as they are: case, spaces and accents count. Against
    an empty reference every predicted character is an edit. `mean_character_error_rate` differs:
    there every sentence counts alike.

    >>> character_error_rate(["abcd", "x"], ["abcd", "y"])
    0.2
    """
    return _rate(predicted, references, unit="characters")


def mean_character_error_rate(predicted: Sequence[str], references: Sequence[str]) -> float:
    """The mean over sentences of edits over characters, a fraction.

    The mean is what is often reported. A short sentence weighs as much as a long one, so it is not
    `character_error_rate`. An empty reference has a rate of 0 if the prediction is empty too, else 1.

    >>> mean_character_error_rate(["abcd", "x"], ["abcd", "y"])
    0.5
    """
    require_pairs(predicted, references)
    rates = [
        Levenshtein.distance(guess, reference) / len(reference) if reference else float(guess != "")
        for guess, reference in zip(predicted, references, strict=True)
    ]
    return sum(rates) / len(rates)


def text_word_error_rate(predicted: Sequence[str], references: Sequence[str]) -> float:
    """All edits of words over all words of the references, a fraction. White space parts words.

    >>> text_word_error_rate(["the cat sat"], ["the  black cat sat"])
    0.25
    """
    return _rate(
        [guess.split() for guess in predicted],
        [reference.split() for reference in references],
        unit="words",
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


def _rate(
    predicted: Sequence[Sequence[str]], references: Sequence[Sequence[str]], *, unit: str
) -> float:
    require_pairs(predicted, references)
    edits = sum(
        Levenshtein.distance(guess, reference)
        for guess, reference in zip(predicted, references, strict=True)
    )
    return _share(edits, sum(map(len, references)), unit=unit)


def _share(edits: int, length: int, *, unit: str) -> float:
    if length == 0:
        raise RegardError(
            f"All references are empty, so there is no rate of errors over their {unit}. "
            "Give at least one reference that is not."
        )
    return edits / length
