"""Synthetic examples: generators against independent solutions, and datasets of examples."""

from __future__ import annotations

import random
import re
import statistics
from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regard.core.errors import RegardError
from regard.data.readers.text_file import RowErrors
from regard.data.synthetic import (
    AAStar,
    Associations,
    Brackets,
    Copying,
    Example,
    ExampleGenerator,
    ListOperations,
    Parity,
    SyntheticExamples,
    evaluate_listops,
    is_balanced,
    length_range,
    nesting_depth,
)

SEEDS = st.integers(0, 10**6)
LENGTHS = st.integers(1, 60)


def sample(generator: ExampleGenerator, seed: int, length: int) -> Example:
    return generator.sample(random.Random(seed), length)


@given(SEEDS, LENGTHS)
def test_parity(seed: int, length: int) -> None:
    text, target = sample(Parity(), seed, length)
    assert len(text) == length
    odd = False
    for bit in text:
        odd ^= bit == "1"
    assert target == ("odd" if odd else "even")


@given(SEEDS, LENGTHS)
def test_aa_star_against_a_regular_expression(seed: int, length: int) -> None:
    text, target = sample(AAStar(), seed, length)
    assert len(text) == length
    assert (target == "yes") == (re.fullmatch("(aa)*", text) is not None)


def test_aa_star_cases() -> None:
    texts = {sample(AAStar(), seed, length).text for seed in range(40) for length in (4, 5)}
    assert {"aaaa", "aaaaa"} < texts
    assert any("b" in text for text in texts)
    assert all("b" not in sample(AAStar(b_fraction=0.0), seed, 9).text for seed in range(40))


@given(SEEDS, st.integers(1, 30), st.integers(1, 4), st.integers(1, 6))
def test_brackets_against_reduction(seed: int, half: int, kinds: int, depth: int) -> None:
    text, target = sample(Brackets(kinds=kinds, depth=depth), seed, 2 * half)
    assert len(text) == 2 * half
    reduced = text
    while (less := re.sub(r"\(\)|\[\]|\{\}|<>", "", reduced)) != reduced:  # remove adjacent pairs
        reduced = less
    assert (target == "yes") == (reduced == "")
    if target == "yes":
        assert nesting_depth(text) <= depth
    assert set(text) <= set("([{<"[:kinds] + ")]}>"[:kinds])


def test_brackets_label_and_count_frequencies() -> None:
    rows = [sample(Brackets(), seed, 12) for seed in range(2000)]
    unbalanced = [text for text, target in rows if target == "no"]
    assert 0.45 < len(unbalanced) / len(rows) < 0.55
    counted = [
        text.count("(") == text.count(")") and text.count("[") == text.count("]")
        for text in unbalanced
    ]
    assert 0.4 < sum(counted) / len(counted) < 0.6


def test_number_of_balanced_strings() -> None:
    """The Catalan numbers."""
    for half, number in enumerate((1, 2, 5, 14), start=1):
        texts = map("".join, product("()", repeat=2 * half))
        assert sum(map(is_balanced, texts)) == number


def by_python(text: str) -> int:
    """The value by Python's `eval`."""
    names = {"[MIN": "low(", "[MAX": "high(", "[MED": "middle(", "[SM": "total(", "]": "),"}
    code = "".join(names.get(token, f"{token},") for token in text.split()).rstrip(",")
    functions: dict[str, Any] = {
        "low": lambda *digits: min(digits),
        "high": lambda *digits: max(digits),
        "middle": lambda *digits: int(statistics.median(digits)),
        "total": lambda *digits: sum(digits) % 10,
    }
    return int(eval(code, functions))


@given(SEEDS, st.integers(3, 80), st.integers(1, 5))
def test_listops_against_python_eval(seed: int, length: int, depth: int) -> None:
    text, target = sample(ListOperations(depth=depth), seed, length)
    tokens = text.split()
    assert len(tokens) == length
    assert target == str(by_python(text)) == str(evaluate_listops(text))
    opened = [1 if token.startswith("[") else -1 if token == "]" else 0 for token in tokens]
    assert max(sum(opened[: position + 1]) for position in range(length)) <= depth


def test_listops_by_hand() -> None:
    assert evaluate_listops("[MAX 2 9 [MIN 4 7 ] 0 ]") == 9
    assert evaluate_listops("[SM 5 5 [MED 1 4 ] ]") == 2  # the median 2.5 becomes 2


@given(SEEDS, st.integers(1, 64))
def test_associative_recall(seed: int, pairs: int) -> None:
    text, target = sample(Associations(), seed, pairs)
    *pairs_text, mark, query = text.split()
    assert mark == "?"
    known = dict(zip(pairs_text[::2], pairs_text[1::2], strict=True))
    assert len(known) == pairs
    assert target == known[query]
    assert len(text.split()) == Associations().num_tokens(pairs)


@given(SEEDS, LENGTHS, st.integers(2, 26))
def test_copy_and_reverse(seed: int, length: int, symbols: int) -> None:
    text, target = sample(Copying(symbols=symbols), seed, length)
    assert target == text
    assert len(text) == length
    assert len(set(text)) <= symbols
    text, target = sample(Copying(symbols=symbols, backwards=True), seed, length)
    assert target == "".join(reversed(text))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Brackets(kinds=5), "kinds=5"),
        (lambda: Brackets(depth=0), "depth=0"),
        (lambda: ListOperations(depth=0), "depth=0"),
        (lambda: Associations(keys=1), "keys=1"),
        (lambda: Copying(symbols=27), "symbols=27"),
        (lambda: sample(Associations(keys=4), 0, 5), r"5 pairs .* keys=4"),
    ],
)
def test_invalid_generators(make: Any, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        make()


def labels(
    generator: ExampleGenerator, shortest: int, longest: int, *, count: int = 300, seed: int = 0
) -> SyntheticExamples:
    return SyntheticExamples(
        generator=generator, shortest=shortest, longest=longest, count=count, seed=seed
    )


def test_rows_are_reproducible() -> None:
    source = labels(Parity(), 3, 6)
    rows = list(source.rows(errors=RowErrors()))
    assert (
        rows
        == list(source.rows(errors=RowErrors()))
        == list(labels(Parity(), 3, 6).rows(errors=RowErrors()))
    )
    assert rows != list(labels(Parity(), 3, 6, seed=1).rows(errors=RowErrors()))
    assert [row.line for row in rows] == list(range(1, 301))
    assert set(Counter(len(row.input) for row in rows)) == {3, 4, 5, 6}


def test_lengths() -> None:
    assert list(labels(Brackets(), 3, 9).lengths) == [4, 6, 8]
    assert list(labels(Brackets(), 1, 3).lengths) == [2]
    assert list(labels(Parity(), 2, 4).lengths) == [2, 3, 4]


def test_synthetic_pairs() -> None:
    rows = list(
        SyntheticExamples(
            generator=Copying(backwards=True), shortest=3, longest=3, count=5, seed=0
        ).rows(errors=RowErrors())
    )
    assert [row.target for row in rows] == [row.input[::-1] for row in rows]


def test_length_range() -> None:
    assert length_range("41-80") == (41, 80)
    assert length_range("7") == (7, 7)
    assert length_range("part-2.tsv") is None
    assert length_range("-3") is None


def test_invalid_datasets() -> None:
    with pytest.raises(RegardError, match="'brackets' has no strings with lengths from 3 to 3"):
        labels(Brackets(), 3, 3)
    with pytest.raises(RegardError, match="count=0"):
        labels(Parity(), 1, 3, count=0)
