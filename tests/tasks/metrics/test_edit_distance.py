"""Error rates: examples by hand, and agreement with a plain dynamic program."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from regard.core.errors import RegardError
from regard.tasks.metrics import (
    CharacterErrorRate,
    ExactMatch,
    ExactMatchError,
    MeanCharacterErrorRate,
    Metric,
    PhoneErrorRate,
    WordErrorRate,
)

per, cer, mean_cer, wer = (
    PhoneErrorRate(),
    CharacterErrorRate(),
    MeanCharacterErrorRate(),
    WordErrorRate(),
)
RATES: list[Metric] = [ExactMatch(), ExactMatchError(), per, cer, mean_cer, wer]


def edits(left: Sequence[str], right: Sequence[str]) -> int:
    """The fewest edits, by filling the whole table row by row."""
    above = list(range(len(right) + 1))
    for i, symbol in enumerate(left, start=1):
        row = [i]
        for j, other in enumerate(right, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (symbol != other)))
        above = row
    return above[-1]


def test_exact_match_with_several_references() -> None:
    references = [("T AH M EY", "T AH M AA"), ("K AE T",), ("AH", "EY"), ("D AO G",)]
    predictions = ["T AH M AA", "K AE", "EY", "D  AO G"]
    assert ExactMatch()(predictions, references) == 75.0
    assert ExactMatchError()(predictions, references) == 25.0


def test_phone_error_rate_uses_the_nearest_reference() -> None:
    # One edit against each reference of the first: the longer, of 3 phones, is taken. Then 2 of 2.
    predictions, references = ["A B", "X Y"], [("A", "A B C"), ("P Q",)]
    assert per(predictions, references) == pytest.approx(100 * 3 / 5)
    reordered = [tuple(reversed(choices)) for choices in references]
    assert per(predictions, reordered) == per(predictions, references)


def test_fewest_edits_come_before_a_lower_rate() -> None:
    # 1 edit of 1 phone, and 2 edits of 4: the rate of the second is lower, its edits are not.
    assert per(["A B"], [("A", "A B C D")]) == 100.0


def test_phones_are_whole_symbols() -> None:
    assert per(["AH0"], [("AH1",)]) == 100.0


def test_rates_can_exceed_one() -> None:
    assert per(["A B C"], [("A",)]) == 200.0
    assert cer(["abc"], [("a",)]) == 2.0


def test_corpus_and_mean_character_error_rate() -> None:
    items = ["kitten", "a"], [("sitting",), ("b",)]
    assert cer(*items) == pytest.approx(4 / 8)
    assert mean_cer(*items) == pytest.approx((3 / 7 + 1) / 2)


def test_accents_case_and_spaces_count() -> None:
    assert cer(["Él va"], [("el  va",)]) == pytest.approx(2 / 6)


def test_words_are_split_at_white_space() -> None:
    assert wer([" the cat\tsat ", "on"], [("the dog sat",), ("on",)]) == 0.25


def test_empty_reference_counts_insertions() -> None:
    assert cer(["ab", "xyz"], [("ab",), ("",)]) == 1.5
    assert wer(["a", "x y"], [("a",), ("",)]) == 2.0
    assert mean_cer(["ab", "xyz"], [("ab",), ("",)]) == 0.5
    assert mean_cer(["ab", ""], [("ab",), ("",)]) == 0.0


def test_empty_prediction() -> None:
    assert cer([""], [("abc",)]) == 1.0
    assert per([""], [("A B",)]) == 100.0
    assert ExactMatchError()([""], [("A B",)]) == 100.0


@pytest.mark.parametrize("rate", [per, cer, wer])
def test_rate_over_nothing_is_undefined(rate: Metric) -> None:
    assert math.isnan(rate(["a"], [("",)]))


@pytest.mark.parametrize("rate", RATES)
def test_item_without_references_raises(rate: Metric) -> None:
    with pytest.raises(RegardError, match="Item 2"):
        rate(["A", "B"], [("A",), ()])


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
    spoken = list(map(" ".join, predictions)), [tuple(map(" ".join, of)) for of in references]
    assert per(*spoken) == pytest.approx(100 * total / length)
    assert wer(*spoken) == pytest.approx(total / length)
    assert ExactMatchError()(*spoken) == pytest.approx(100 * wrong / 30)

    texts, targets = list(map("".join, predictions)), ["".join(of[0]) for of in references]
    counted = [edits(prediction, other) for prediction, other in zip(texts, targets, strict=True)]
    rates = [count / len(target) for count, target in zip(counted, targets, strict=True)]
    firsts = [(target,) for target in targets]
    assert cer(texts, firsts) == pytest.approx(sum(counted) / sum(map(len, targets)))
    assert mean_cer(texts, firsts) == pytest.approx(sum(rates) / 30)
