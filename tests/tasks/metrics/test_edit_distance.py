"""Error rates: examples to check with a pencil, and every count against a plain table of edits."""

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


def test_a_word_is_right_if_it_equals_any_answer() -> None:
    answers = [
        [["T", "AH", "M", "EY"], ["T", "AH", "M", "AA"]],
        [["K", "AE", "T"]],
        [["AH"], ["EY"]],
        [["D", "AO", "G"]],
    ]
    predicted = [["T", "AH", "M", "AA"], ["K", "AE"], ["EY"], ["D", "AO", "G"]]
    assert word_error_rate(predicted, answers) == 25.0


def test_lists_and_tuples_of_the_same_phones_are_equal() -> None:
    assert word_error_rate([("K", "AE")], [[["K", "AE"]]]) == 0.0


def test_phones_are_held_against_the_nearest_answer() -> None:
    # One edit against each answer of the first: the longer, of 3 phones, is taken. Then 2 of 2.
    predicted = [["A", "B"], ["X", "Y"]]
    answers = [[["A"], ["A", "B", "C"]], [["P", "Q"]]]
    assert phone_error_rate(predicted, answers) == pytest.approx(100 * 3 / 5)
    reordered = [list(reversed(choices)) for choices in answers]
    assert phone_error_rate(predicted, reordered) == phone_error_rate(predicted, answers)


def test_fewest_edits_come_before_a_lower_rate() -> None:
    # 1 edit of 1 phone, and 2 edits of 4: the rate of the second is lower, its edits are not.
    assert phone_error_rate([["A", "B"]], [[["A"], ["A", "B", "C", "D"]]]) == 100.0


def test_phones_are_whole_symbols() -> None:
    assert phone_error_rate([["AH0"]], [[["AH1"]]]) == 100.0


def test_a_long_prediction_passes_the_whole() -> None:
    assert phone_error_rate([["A", "B", "C"]], [[["A"]]]) == 200.0
    assert character_error_rate(["abc"], ["a"]) == 2.0


def test_characters_of_all_sentences_count_together_or_sentence_by_sentence() -> None:
    predicted, references = ["kitten", "a"], ["sitting", "b"]
    assert character_error_rate(predicted, references) == pytest.approx(4 / 8)
    assert mean_character_error_rate(predicted, references) == pytest.approx((3 / 7 + 1) / 2)


def test_accents_case_and_spaces_count() -> None:
    assert character_error_rate(["Él va"], ["el  va"]) == pytest.approx(2 / 6)


def test_words_of_text_are_parted_by_white_space() -> None:
    assert text_word_error_rate([" the cat\tsat ", "on"], ["the dog sat", "on"]) == 0.25


def test_one_empty_reference_counts_what_was_put_in() -> None:
    assert character_error_rate(["ab", "xyz"], ["ab", ""]) == 1.5
    assert text_word_error_rate(["a", "x y"], ["a", ""]) == 2.0
    assert mean_character_error_rate(["ab", "xyz"], ["ab", ""]) == 0.5
    assert mean_character_error_rate(["ab", ""], ["ab", ""]) == 0.0


def test_an_empty_prediction_misses_everything() -> None:
    assert character_error_rate([""], ["abc"]) == 1.0
    assert phone_error_rate([[]], [[["A", "B"]]]) == 100.0
    assert word_error_rate([[]], [[["A", "B"]]]) == 100.0


@pytest.mark.parametrize("rate", [character_error_rate, text_word_error_rate])
def test_references_that_are_all_empty_are_refused(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="All references are empty"):
        rate(["a"], [""])


def test_answers_that_are_all_empty_are_refused() -> None:
    with pytest.raises(RegardError, match="over their phones"):
        phone_error_rate([["A"]], [[[]]])


@pytest.mark.parametrize("rate", TEXT_RATES)
def test_unequal_numbers_are_refused(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="2 predictions for 1 references"):
        rate(["a", "b"], ["a"])


@pytest.mark.parametrize("rate", [*TEXT_RATES, word_error_rate, phone_error_rate])
def test_nothing_is_not_scored(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="nothing to score"):
        rate([], [])


@pytest.mark.parametrize("rate", [word_error_rate, phone_error_rate])
def test_pronunciations_need_answers_for_every_item(rate: Callable[..., float]) -> None:
    with pytest.raises(RegardError, match="1 predictions for 2 references"):
        rate([["A"]], [[["A"]], [["B"]]])
    with pytest.raises(RegardError, match="Item 2 has no answers"):
        rate([["A"], ["B"]], [[["A"]], []])


@pytest.mark.parametrize("seed", range(5))
def test_rates_follow_from_a_plain_table_of_edits(seed: int) -> None:
    chance = random.Random(seed)

    def sequence() -> list[str]:
        return chance.choices(["a", "b", "AH0", "É"], k=chance.randrange(1, 12))

    predicted = [sequence() for _ in range(30)]
    answers = [[sequence() for _ in range(chance.randrange(1, 4))] for _ in predicted]
    total = length = wrong = 0
    for guess, choices in zip(predicted, answers, strict=True):
        fewest = min(edits(guess, answer) for answer in choices)
        total += fewest
        length += max(len(answer) for answer in choices if edits(guess, answer) == fewest)
        wrong += fewest > 0
    assert phone_error_rate(predicted, answers) == pytest.approx(100 * total / length)
    assert word_error_rate(predicted, answers) == pytest.approx(100 * wrong / 30)

    firsts = [choices[0] for choices in answers]
    counted = [edits(guess, answer) for guess, answer in zip(predicted, firsts, strict=True)]
    words = text_word_error_rate(list(map(" ".join, predicted)), list(map(" ".join, firsts)))
    assert words == pytest.approx(sum(counted) / sum(map(len, firsts)))

    guesses, references = list(map("".join, predicted)), list(map("".join, firsts))
    counted = [edits(guess, other) for guess, other in zip(guesses, references, strict=True)]
    lengths = list(map(len, references))
    rates = [count / size for count, size in zip(counted, lengths, strict=True)]
    assert character_error_rate(guesses, references) == pytest.approx(sum(counted) / sum(lengths))
    assert mean_character_error_rate(guesses, references) == pytest.approx(sum(rates) / 30)
