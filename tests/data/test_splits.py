"""Hash-based splits: stable, disjoint by input, of the configured fractions."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.data.readers.text_file import Row
from regard.data.splits import EvalSplit, split_of

WORDS = [f"word{number}" for number in range(5_000)]


def test_split_is_stable() -> None:
    splits = {
        word: split_of(word, validation=0.3, test=0.3)
        for word in ("cat", "dog", "über", "", "rose")
    }
    assert splits == {
        "cat": "validation",
        "dog": "validation",
        "über": "validation",
        "": "train",
        "rose": "train",
    }


def test_split_against_the_hash() -> None:
    for word in WORDS[:200]:
        digest = hashlib.blake2b(f"regard\0{word}".encode(), digest_size=8).hexdigest()
        uniform = int(digest, 16) / 16**16
        expected = "validation" if uniform < 0.05 else "test" if uniform >= 0.95 else "train"
        assert split_of(word) == expected


def test_fractions() -> None:
    counts = Counter(split_of(word, validation=0.1, test=0.02) for word in WORDS)
    assert 0.09 < counts["validation"] / len(WORDS) < 0.11
    assert 0.014 < counts["test"] / len(WORDS) < 0.026


def test_larger_validation_takes_from_train_only() -> None:
    for word in WORDS[:2000]:
        small, large = split_of(word, validation=0.05), split_of(word, validation=0.2)
        assert small == large or (small, large) == ("train", "validation")


def test_salt() -> None:
    assert [split_of(word) for word in WORDS] != [split_of(word, salt="x") for word in WORDS]


def test_nothing_held_out() -> None:
    assert {split_of(word, validation=0.0, test=0.0) for word in WORDS} == {"train"}


@pytest.mark.parametrize(
    ("validation", "test"), [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (1.0, 0.0), (float("nan"), 0.1)]
)
def test_invalid_fractions(validation: float, test: float) -> None:
    with pytest.raises(RegardError, match=f"validation={validation}, test={test}"):
        split_of("cat", validation=validation, test=test)


def test_grouped_references() -> None:
    rows = [("Read", "R EH D"), ("read", "R IY D"), ("Read", "R EH D")]
    split = EvalSplit.grouped(rows, group=True, lowercase="source")
    assert (split.inputs, split.references) == (("Read",), (("R EH D", "R IY D"),))
    assert EvalSplit.grouped(rows, group=False).inputs == ("Read", "read", "Read")


def test_arrays_are_named_and_fingerprinted() -> None:
    frames = np.ones((2, 3), dtype=np.float32)
    split = EvalSplit.of([Row(frames, "7", 4)], path=Path("digits.npz"))
    assert (split.names, split.references) == (("digits.npz:4",), ("7",))
    other = EvalSplit.of([Row(2 * frames, "7", 4)], path=Path("digits.npz"))
    assert split.fingerprint() != other.fingerprint()
