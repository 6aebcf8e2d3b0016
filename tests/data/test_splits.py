"""The split: stable, disjoint by source, of the asked size."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from regard.core.errors import RegardError
from regard.data.splits import part_of

WORDS = [f"word{number}" for number in range(5_000)]


def test_the_part_of_a_word_never_changes() -> None:
    parts = {
        word: part_of(word, validation=0.3, test=0.3) for word in ("cat", "dog", "über", "", "rose")
    }
    assert parts == {
        "cat": "validation",
        "dog": "validation",
        "über": "validation",
        "": "train",
        "rose": "train",
    }


def test_the_rule_can_be_followed_by_hand() -> None:
    for word in WORDS[:200]:
        digest = hashlib.blake2b(f"regard\0{word}".encode(), digest_size=8).hexdigest()
        place = int(digest, 16) / 16**16
        wanted = "validation" if place < 0.05 else "test" if place >= 0.95 else "train"
        assert part_of(word) == wanted


def test_fractions_are_kept() -> None:
    counts = Counter(part_of(word, validation=0.1, test=0.02) for word in WORDS)
    assert 0.09 < counts["validation"] / len(WORDS) < 0.11
    assert 0.014 < counts["test"] / len(WORDS) < 0.026


def test_a_larger_validation_takes_from_train_only() -> None:
    for word in WORDS[:2000]:
        small, large = part_of(word, validation=0.05), part_of(word, validation=0.2)
        assert small == large or (small, large) == ("train", "validation")


def test_another_salt_is_another_split() -> None:
    assert [part_of(word) for word in WORDS] != [part_of(word, salt="x") for word in WORDS]


def test_nothing_held_out() -> None:
    assert {part_of(word, validation=0.0, test=0.0) for word in WORDS} == {"train"}


@pytest.mark.parametrize(
    ("validation", "test"), [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (1.0, 0.0), (float("nan"), 0.1)]
)
def test_fractions_out_of_range_are_refused(validation: float, test: float) -> None:
    with pytest.raises(RegardError, match="leave some for train"):
        part_of("cat", validation=validation, test=test)
