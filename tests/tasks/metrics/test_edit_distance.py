"""Error rates: examples by hand, and agreement with a plain dynamic program."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from regard.core.errors import RegardError
from regard.tasks.metrics.edit_distance import (
    character_error_rate,
    mean_character_error_rate,
    phone_error_rate,
    text_word_error_rate,
    word_error_rate,
)

TEXT_RATES = [character_error_rate, mean_character_error_rate, text_word_error_rate]


def edits(left: Sequence[str], right: Sequence[str]) -> int:
    """The fewest edits, by filling the whole table row by row."""
    above = list(range(len(right) + 1))
    for i, symbol in enumerate(left, start=1):
        row = [i]
        for j, other in enumerate(right, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (symbol != other)))
        above = row
    return above[-1]


def test_word_error_rate_with_several_references() -> None:
    references = [
        [["T", "AH", "M", "EY"], ["T", "AH", "M", "AA"]],
        [["K", "AE", "T"]],
        [["AH"], ["EY"]],
        [["D", "AO", "G"]],
    ]
    predictions = [["T", "AH", "M", "AA"], ["K", "AE"], ["EY"], ["D", "AO", "G"]]
    assert word_error_rate(predictions, references) == 25.0


def test_lists_and_tuples_are_equal() -> None:
    assert word_error_rate([("K", "AE")], [[["K", "AE"]]]) == 0.0


def test_phone_error_rate_uses_the_nearest_reference() -> None:
    # One edit against each reference of the first: the longer, of 3 phones, is taken. Then 2 of 2.
    predictions = [["A", "B"], ["X", "Y"]]
    references = [[["A"], ["A", "B", "C"]], [["P", "Q"]]]
    assert phone_error_rate(predictions, references) == pytest.approx(100 * 3 / 5)
    reordered = [list(reversed(choices)) for choices in references]
    assert phone_error_rate(predictions, reordered) == phone_error_rate(predictions, references)


def test_fewest_edits_come_before_a_lower_rate() -> None:
    # 1 edit of 1 phone, and 2 edits of 4: the rate of the second is lower, its edits are not.
    assert phone_error_rate([["A", "B"]], [[["A"], ["A", "B", "C", "D"]]]) == 100.0


def test_phones_are_whole_symbols() -> None:
    assert phone_error_rate([["AH0"]], [[["AH1"]]]) == 100.0


def test_rates_can_exceed_one() -> None:
    assert phone_error_rate([["A", "B", "C"]], [[["A"]]]) == 200.0
    assert character_error_rate(["abc"], ["a"]) == 2.0


def test_corpus_and_mean_character_error_rate() -> None:
    predictions, references = ["kitten", "a"], ["sitting", "b"]
    assert character_error_rate(predictions, references) == pytest.approx(4 / 8)
    assert mean_character_error_rate(predictions, references) == pytest.approx((3 / 7 + 1) / 2)


def test_accents_case_and_spaces_count() -> None:
    assert character_error_rate(["Él va"], ["el  va"]) == pytest.approx(2 / 6)


def test_words_are_split_at_white_space() -> None:
    assert text_word_error_rate([" the cat\tsat ", "on"], ["the dog sat", "on"]) == 0.25


def test_empty_reference_counts_insertions() -> None:
    assert character_error_rate(["ab", "xyz"], ["ab", ""]) == 1.5
    assert text_word_error_rate(["a", "x y"], ["a", ""]) == 2.0
    assert mean_character_error_rate(["ab", "xyz"], ["ab", ""]) == 0.5
    assert mean_character_error_rate(["ab", ""], ["ab", ""]) == 0.0


def test_empty_prediction() -> None:
    assert character_error_rate([""], ["abc"]) == 1.0
    assert phone_error_rate([[]], [[["A", "B"]]]) == 100.0
    assert word_error_rate([[]], [[["A", "B"]]]) == 100.0


@pytest.mark.parametrize("rate", [character_error_rate, text_word_error_rate])
def test_only_empty_references_raise(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="All references are empty"):
        rate(["a"], [""])


def test_only_empty_pronunciations_raise() -> None:
    with pytest.raises(RegardError, match="over their phones"):
        phone_error_rate([["A"]], [[[]]])


@pytest.mark.parametrize("rate", TEXT_RATES)
def test_unequal_numbers_raise(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="2 predictions for 1 references"):
        rate(["a", "b"], ["a"])


@pytest.mark.parametrize("rate", [*TEXT_RATES, word_error_rate, phone_error_rate])
def test_no_items_raise(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="nothing to score"):
        rate([], [])


@pytest.mark.parametrize("rate", [word_error_rate, phone_error_rate])
def test_item_without_references_raises(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="1 predictions for 2 references"):
        rate([["A"]], [[["A"]], [["B"]]])
    with pytest.raises(RegardError, match="Item 2"):
        rate([["A"], ["B"]], [[["A"]], []])


@pytest.mark.parametrize("seed", range(5))
def test_rates_agree_with_a_plain_dynamic_program(seed: int) -> None:
    rng = random.Random(seed)

    def sequence() -> list[str]:
        return rng.choices(["a", "b", "AH0", "É"], k=rng.randrange(1, 12))

    predictions = [sequence() for _ in range(30)]
    references = [[sequence() for _ in range(rng.randrange(1, 4))] for _ in predictions]
    total = length = wrong = 0
    for prediction, choices in zip(predictions, references, strict=True):
        fewest = min(edits(prediction, reference) for reference in choices)
        total += fewest
        length += max(
            len(reference) for reference in choices if edits(prediction, reference) == fewest
        )
        wrong += fewest > 0
    assert phone_error_rate(predictions, references) == pytest.approx(100 * total / length)
    assert word_error_rate(predictions, references) == pytest.approx(100 * wrong / 30)

    firsts = [choices[0] for choices in references]
    counted = [
        edits(prediction, reference)
        for prediction, reference in zip(predictions, firsts, strict=True)
    ]
    words = text_word_error_rate(list(map(" ".join, predictions)), list(map(" ".join, firsts)))
    assert words == pytest.approx(sum(counted) / sum(map(len, firsts)))

    texts, targets = list(map("".join, predictions)), list(map("".join, firsts))
    counted = [edits(prediction, other) for prediction, other in zip(texts, targets, strict=True)]
    lengths = list(map(len, targets))
    rates = [count / size for count, size in zip(counted, lengths, strict=True)]
    assert character_error_rate(texts, targets) == pytest.approx(sum(counted) / sum(lengths))
    assert mean_character_error_rate(texts, targets) == pytest.approx(sum(rates) / 30)
