"""Deletion results in words: what happened, and no more than that."""

from __future__ import annotations

import dataclasses
import re

import pytest
from tests.factories.documents import made_up_deletion

from regard.core.records.document import DeletionRecord, Estimate
from regard.views.charts.deletion import deletion_sentence, deletion_table, deletion_verdict

MANY, ONE = made_up_deletion(), made_up_deletion(texts=1)


def with_falls(record: DeletionRecord, *falls: float) -> DeletionRecord:
    """The same at every share, without ends."""
    top, random, least = (
        dataclasses.replace(order, falls=(Estimate(mean=fall),) * 6)
        for order, fall in zip(record.orders().values(), falls, strict=True)
    )
    return dataclasses.replace(record, top=top, random=random, least=least)


def with_difference(record: DeletionRecord, mean: float, low: float, high: float) -> DeletionRecord:
    difference = Estimate(mean=mean, low=low, high=high)
    return dataclasses.replace(record, differences=(difference,) * 6)


def test_the_sentence_says_what_each_order_does() -> None:
    assert deletion_sentence(MANY) == (
        "Over 200 texts, removing the 10 % of words with most weight lowers the probability of the "
        "label by 0.38, removing random ones by 0.04, and removing those with least raises it by 0.03."
    )
    assert deletion_sentence(ONE) == (
        "Removing the 10 % of words with most weight (5 words) lowers the probability of the label by "
        "0.38, removing random ones by 0.04 (mean of 5 draws), and removing those with least raises "
        "it by 0.03."
    )
    assert "the 50 % of words" in deletion_sentence(MANY, share=0.6)


def test_a_single_word_is_one_word() -> None:
    assert deletion_sentence(ONE, share=0.01).startswith(
        "Removing the word with most weight lowers the probability of the label by 0.10, removing a "
        "random one by 0.01 (mean of 5 draws), and removing the one with least raises it by 0.01"
    )


@pytest.mark.parametrize(
    ("falls", "words"),
    [
        ((0.2, 0.001, -0.2), "by 0.20, removing random ones leaves it as it is, and .* raises it"),
        (
            (-0.2, -0.1, 0.1),
            "raises .* by 0.20, removing random ones by 0.10, .* lowers it by 0.10",
        ),
        ((0.0, 0.0, 0.1), "leaves .* label as it is, removing random ones does too, .* lowers it"),
    ],
)
def test_the_words_follow_the_signs(falls: tuple[float, ...], words: str) -> None:
    assert re.search(words, deletion_sentence(with_falls(MANY, *falls)))


@pytest.mark.parametrize(
    ("record", "difference", "words"),
    [
        (MANY, (0.3, 0.2, 0.4), r"more than on random ones \(difference 0.30 \(0.20 to 0.40\)\)"),
        (MANY, (-0.3, -0.4, -0.2), r"less than on random ones \(difference −0.30"),
        (MANY, (0.1, -0.1, 0.3), "cannot be told apart"),
        (MANY, (0.001, 0.0005, 0.002), "cannot be told apart"),
        (ONE, (0.3, 0.2, 0.4), "more than any of the random draws: the label hangs on these"),
        (ONE, (-0.3, -0.4, -0.2), "less than any of the random draws"),
        (ONE, (0.1, -0.1, 0.3), "Random draws do as much"),
    ],
)
def test_the_verdict_goes_by_the_ends(
    record: DeletionRecord, difference: tuple[float, float, float], words: str
) -> None:
    assert re.search(words, deletion_verdict(with_difference(record, *difference)))


@pytest.mark.parametrize("record", [MANY, ONE])
def test_words_with_little_weight_that_count_are_told_of(record: DeletionRecord) -> None:
    assert "little weight" not in deletion_verdict(record)
    falls = list(record.least.falls)
    falls[5] = Estimate(mean=0.46, low=0.4, high=0.5)
    least = dataclasses.replace(record.least, falls=tuple(falls))
    said = deletion_verdict(dataclasses.replace(record, least=least))
    assert said.startswith(deletion_verdict(record))
    assert said.endswith(
        "But removing the 50 % with least weight lowers it by 0.46, more than random ones (0.21): "
        "words with little weight count too."
    )
    # Where the bands meet, nothing is said.
    falls[5] = Estimate(mean=0.3, low=0.2, high=0.4)
    least = dataclasses.replace(record.least, falls=tuple(falls))
    assert deletion_verdict(dataclasses.replace(record, least=least)) == deletion_verdict(record)


def test_the_table_has_a_row_a_share_and_the_area() -> None:
    lines = deletion_table(MANY).split("\n")
    assert lines[0].split("  ")[0] == "removed"
    assert " ".join(lines[4].split()) == ("10 % 12.0 0.38 0.04 −0.03 0.34 (0.31 to 0.37) 30 % 4 %")
    assert " ".join(lines[7].split()) == "area 0.32 0.06 −0.01 0.25 (0.21 to 0.29)"
    assert max(map(len, lines[:8])) <= 100
    text = "\n".join(lines)
    assert "3 texts of less than two words left out" in text
    assert deletion_sentence(MANY) in text
    assert deletion_verdict(MANY) in text
    assert "least and most of the draws" in deletion_table(ONE)
