"""Rows of drawn strings: what `LabelledSource` and `PairSource` are to a file, these are to a rule.

    DrawnLabels(rule=Parity(), shortest=1, longest=8, count=1000, seed=0).rows(bad=BadRows())

A rule draws one string of a given length and says its answer. What is drawn is a function of the rule,
the lengths, the count and the seed alone, so that the rows can be read as often as needed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.labelled_rows import LabelledRow
from regard.data.row_formats import PairRow


class Example(NamedTuple):
    """A string and the right answer to it."""

    text: str
    answer: str


@runtime_checkable
class Rule(Protocol):
    """What the strings of a problem are, and what is right of each.

    `step` is the distance of two lengths that there are strings of: 2 where every length is even.
    """

    @property
    def name(self) -> str:
        """The problem, for messages."""
        ...

    @property
    def least(self) -> int:
        """The shortest length there is; all others are a multiple of `step` further."""
        ...

    @property
    def step(self) -> int:
        """From one length to the next."""
        ...

    def tokens(self, length: int) -> int:
        """How many tokens a string of this length has."""
        ...

    def draw(self, chance: random.Random, length: int) -> Example:
        """One string of exactly this length."""
        ...


@dataclass(frozen=True, kw_only=True)
class DrawnExamples:
    """So many strings, their lengths drawn evenly from `shortest` to `longest`, both included."""

    rule: Rule
    shortest: int
    longest: int
    count: int
    seed: int

    def __post_init__(self) -> None:
        if not self.lengths:
            raise RegardError(
                f"There are no strings of '{self.rule.name}' with lengths from {self.shortest} to "
                f"{self.longest}: lengths begin at {self.rule.least} and go in steps of "
                f"{self.rule.step}. Choose a wider range."
            )
        if self.count < 1:
            raise RegardError(f"count={self.count}: draw 1 string or more.")

    @property
    def path(self) -> Path:
        """What messages name in place of a file."""
        return Path(f"drawn {self.rule.name}")

    @property
    def lengths(self) -> range:
        """The lengths that are drawn."""
        least, step = self.rule.least, self.rule.step
        first = least + max(0, -(-(self.shortest - least) // step)) * step
        return range(first, self.longest + 1, step)

    def examples(self) -> Iterator[Example]:
        """The strings, the same every time."""
        chance = random.Random(f"{self.rule!r} {self.shortest} {self.longest} {self.seed}")
        lengths = self.lengths
        for _ in range(self.count):
            yield self.rule.draw(chance, chance.choice(lengths))


class DrawnLabels(DrawnExamples):
    """Strings with a label each."""

    def rows(self, *, bad: BadRows) -> Iterator[LabelledRow]:
        """Every string; none of them is bad."""
        del bad
        for line, (text, answer) in enumerate(self.examples(), start=1):
            yield LabelledRow(text, answer, line)


class DrawnPairs(DrawnExamples):
    """Strings with another to be written for each."""

    def rows(self, *, bad: BadRows) -> Iterator[PairRow]:
        """Every pair; none of them is bad."""
        del bad
        for line, (text, answer) in enumerate(self.examples(), start=1):
            yield PairRow(text, answer, line)


def length_range(text: str) -> tuple[int, int] | None:
    """Lengths as a user writes them; None where the text is something else, such as a file.

    >>> length_range("41-80"), length_range("12"), length_range("strings.tsv")
    ((41, 80), (12, 12), None)
    """
    first, _, last = text.partition("-")
    numbers = (first, last or first)
    if not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])
