"""Spelled numbers: translate an English numeral into digits.

    four hundred and seven  →  407

A task of a known kind (a sequence in, a sequence out) is its data and its metrics; loss, decoding, splits
and evaluation are those of `SequenceTask`.

    regard train SpelledNumbers --plugin examples/my_task.py:SpelledNumbers --recipe translate-characters
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.data import GeneratedRows, Row
from regard.tasks import SequenceOptions, SequenceTask, Tokenizer
from regard.tasks.metrics import CharacterErrorRate, ExactMatch, Loss

ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(number: int) -> str:
    """The English numeral of a number below a million.

    >>> spelled(90407)
    'ninety thousand four hundred and seven'
    """
    if number < 20:
        return ONES[number]
    if number < 100:
        rest = f"-{ONES[number % 10]}" if number % 10 else ""
        return TENS[number // 10 - 2] + rest
    size, unit = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = f"{' and' if size == 100 else ''} {spelled(number % size)}" if number % size else ""
    return f"{spelled(number // size)} {unit}{rest}"


def rows() -> Iterator[Row]:
    """The numbers from 0 to 9,999."""
    for number in range(10_000):
        yield Row(input=spelled(number), target=str(number), line=number + 1)


class SpelledNumbersOptions(SequenceOptions):
    """As `SequenceOptions`, with letters and digits as tokens."""

    source_tokens: Tokenizer = "characters"
    target_tokens: Tokenizer = "characters"


class SpelledNumbers(SequenceTask):
    """Numerals to digits; the default metric is exact match, in percent."""

    options_class = SpelledNumbersOptions
    metrics = (ExactMatch(), CharacterErrorRate(), Loss())
    datasets = {"numbers": lambda _: GeneratedRows(path=Path("numbers"), generate=rows)}  # noqa: RUF012
