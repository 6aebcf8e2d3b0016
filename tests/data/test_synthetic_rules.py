"""Every rule of drawn strings, against an independent way to the right answer."""

from __future__ import annotations

import random
import re
import statistics
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from regard.core.errors import RegardError
from regard.data.synthetic import (
    Associations,
    Brackets,
    Copying,
    EvenAs,
    Example,
    ListOperations,
    Parity,
    Rule,
    depth_of,
    is_balanced,
    recalled,
    value_of,
)

SEEDS = st.integers(0, 10**6)
LENGTHS = st.integers(1, 60)


def drawn(rule: Rule, seed: int, length: int) -> Example:
    return rule.draw(random.Random(seed), length)


@given(SEEDS, LENGTHS)
def test_parity_is_that_of_the_ones(seed: int, length: int) -> None:
    text, answer = drawn(Parity(), seed, length)
    assert len(text) == length
    odd = False
    for bit in text:
        odd ^= bit == "1"
    assert answer == ("odd" if odd else "even")


@given(SEEDS, LENGTHS)
def test_even_as_are_those_the_expression_matches(seed: int, length: int) -> None:
    text, answer = drawn(EvenAs(), seed, length)
    assert len(text) == length
    assert (answer == "yes") == (re.fullmatch("(aa)*", text) is not None)


def test_even_as_has_all_three_cases() -> None:
    texts = {drawn(EvenAs(), seed, length).text for seed in range(40) for length in (4, 5)}
    assert {"aaaa", "aaaaa"} < texts
    assert any("b" in text for text in texts)
    assert all("b" not in drawn(EvenAs(b_share=0.0), seed, 9).text for seed in range(40))


@given(SEEDS, st.integers(1, 30), st.integers(1, 4), st.integers(1, 6))
def test_brackets_are_balanced_if_and_only_if_the_label_says_so(
    seed: int, half: int, kinds: int, depth: int
) -> None:
    text, answer = drawn(Brackets(kinds=kinds, depth=depth), seed, 2 * half)
    assert len(text) == 2 * half
    left = text
    while (less := re.sub(r"\(\)|\[\]|\{\}|<>", "", left)) != left:  # pairs are crossed out
        left = less
    assert (answer == "yes") == (left == "")
    if answer == "yes":
        assert depth_of(text) <= depth
    assert set(text) <= set("([{<"[:kinds] + ")]}>"[:kinds])


def test_half_of_the_brackets_are_balanced_and_counting_does_not_tell_the_rest() -> None:
    rows = [drawn(Brackets(), seed, 12) for seed in range(2000)]
    spoilt = [text for text, answer in rows if answer == "no"]
    assert 0.45 < len(spoilt) / len(rows) < 0.55
    counted = [
        text.count("(") == text.count(")") and text.count("[") == text.count("]") for text in spoilt
    ]
    assert 0.4 < sum(counted) / len(counted) < 0.6


def test_balance_by_all_short_strings() -> None:
    """Of one kind there are 1, 2, 5, 14 balanced strings of 2, 4, 6, 8: the Catalan numbers."""
    for half, number in enumerate((1, 2, 5, 14), start=1):
        texts = map("".join, product("()", repeat=2 * half))
        assert sum(map(is_balanced, texts)) == number


def by_python(text: str) -> int:
    """The value of a list by Python's own evaluation of an expression made of it."""
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
def test_the_value_of_a_list_is_pythons(seed: int, length: int, depth: int) -> None:
    text, answer = drawn(ListOperations(depth=depth), seed, length)
    tokens = text.split()
    assert len(tokens) == length
    assert answer == str(by_python(text)) == str(value_of(text))
    opened = [1 if token.startswith("[") else -1 if token == "]" else 0 for token in tokens]
    assert max(sum(opened[: place + 1]) for place in range(length)) <= depth


def test_a_list_by_hand() -> None:
    assert value_of("[MAX 2 9 [MIN 4 7 ] 0 ]") == 9
    assert value_of("[SM 5 5 [MED 1 4 ] ]") == 2  # the middle of 1 and 4 is 2.5, of which 2 stays


@given(SEEDS, st.integers(1, 64))
def test_a_key_is_recalled_with_its_value(seed: int, pairs: int) -> None:
    text, answer = drawn(Associations(), seed, pairs)
    *told, mark, asked = text.split()
    assert mark == "?"
    known = dict(zip(told[::2], told[1::2], strict=True))
    assert len(known) == pairs
    assert answer == known[asked] == recalled(text)
    assert len(text.split()) == Associations().tokens(pairs)


@given(SEEDS, LENGTHS, st.integers(2, 26))
def test_copies_are_the_same_forwards_or_backwards(seed: int, length: int, symbols: int) -> None:
    text, answer = drawn(Copying(symbols=symbols), seed, length)
    assert answer == text
    assert len(text) == length
    assert len(set(text)) <= symbols
    text, answer = drawn(Copying(symbols=symbols, backwards=True), seed, length)
    assert answer == "".join(reversed(text))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Brackets(kinds=5), "kinds=5: there are 4 kinds of brackets"),
        (lambda: Brackets(depth=0), "depth=0: a bracket is 1 deep"),
        (lambda: ListOperations(depth=0), "depth=0: a list is 1 deep"),
        (lambda: Associations(keys=1), "keys=1: use 2 or more"),
        (lambda: Copying(symbols=27), "symbols=27: use 2 to 26 letters"),
        (lambda: drawn(Associations(keys=4), 0, 5), "5 pairs need as many keys, but keys=4"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Any, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        make()
