"""Synthetic tasks: algorithmic problems and formal languages whose examples are generated.

    copy, reverse        cab                        →  cab, bac
    associative recall   k4 v1 k0 v7 k9 v1 ? k0     →  v7
    parity               01101                      →  odd
    (aa)*                aaaa                       →  yes
    brackets             ([)]                       →  no          the Dyck language, bounded in depth
    ListOps              [MAX 2 9 [MIN 4 7 ] 0 ]    →  9

A generator samples one string of a given length with its target. `SyntheticExamples` is a reader of them:

    SyntheticExamples(generator=Parity(), shortest=1, longest=8, count=1000, seed=0).examples()

The examples are a function of the generator and its options, the lengths, the count and the seed.
"""

from __future__ import annotations

import random
import statistics
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from regard.core.errors import RegardError
from regard.data.readers.text_file import Row, RowErrors


class Example(NamedTuple):
    """An input string and its target."""

    text: str
    target: str


class ExampleGenerator(ABC):
    """Generates the examples of one synthetic task.

    `min_length` is the shortest length; the others are `length_step` apart, 2 if all are even.
    """

    min_length: ClassVar[int] = 1
    length_step: ClassVar[int] = 1

    @property
    @abstractmethod
    def name(self) -> str:
        """The task's name, for messages."""

    def num_tokens(self, length: int) -> int:
        """Number of tokens of a string of this length: one per letter, bit or bracket."""
        return length

    @abstractmethod
    def sample(self, rng: random.Random, length: int) -> Example:
        """One example of exactly this length."""


@dataclass(frozen=True, kw_only=True)
class SyntheticExamples:
    """`count` examples with lengths sampled uniformly from `shortest` to `longest`, both included."""

    generator: ExampleGenerator
    shortest: int
    longest: int
    count: int
    seed: int

    def __post_init__(self) -> None:
        if not self.lengths:
            raise RegardError(
                f"'{self.generator.name}' has no strings with lengths from {self.shortest} to "
                f"{self.longest}: the shortest has length {self.generator.min_length}, and lengths are "
                f"{self.generator.length_step} apart. Use a wider range."
            )
        if self.count < 1:
            raise RegardError(f"count={self.count}: use 1 or more.")

    @property
    def path(self) -> Path:
        """Name for messages, in place of a file."""
        return Path(f"synthetic {self.generator.name}")

    @property
    def lengths(self) -> range:
        """The lengths to sample from."""
        first, step = self.generator.min_length, self.generator.length_step
        first += max(0, -(-(self.shortest - first) // step)) * step
        return range(first, self.longest + 1, step)

    def examples(self) -> Iterator[Example]:
        """The examples, the same every time."""
        rng = random.Random(f"{self.generator!r} {self.shortest} {self.longest} {self.seed}")
        lengths = self.lengths
        for _ in range(self.count):
            yield self.generator.sample(rng, rng.choice(lengths))

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All examples; there are no row errors."""
        del errors
        for line, (text, target) in enumerate(self.examples(), start=1):
            yield Row(text, target, line)


def length_range(text: str) -> tuple[int, int] | None:
    """Parse a length or a range of lengths; None for anything else, such as a file name.

    >>> length_range("41-80"), length_range("12"), length_range("strings.tsv")
    ((41, 80), (12, 12), None)
    """
    first, _, last = text.partition("-")
    numbers = (first, last or first)
    if not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


PARITY_LABELS = ("even", "odd")


@dataclass(frozen=True, kw_only=True)
class Parity(ExampleGenerator):
    """PARITY: is the number of ones in a bit string even or odd? Bits are independent and uniform.

    Every bit changes the label: one bit of memory for a recurrent layer, but hard for attention, which
    averages (Hahn 2020). The length is the number of bits.
    """

    name: ClassVar[str] = "parity"

    def sample(self, rng: random.Random, length: int) -> Example:
        """Uniform bits."""
        text = "".join(rng.choice("01") for _ in range(length))
        return Example(text, parity_label(text))


def parity_label(text: str) -> str:
    """Whether the number of ones is even or odd.

    >>> parity_label("0110"), parity_label("100")
    ('even', 'odd')
    """
    return PARITY_LABELS[text.count("1") % 2]


@dataclass(frozen=True, kw_only=True)
class AAStar(ExampleGenerator):
    """The language (aa)*: an even number of a's and nothing else; `b_fraction` of the strings contain b's.

    The simplest regular language that is not star-free: it needs counting modulo 2 (Hahn 2020;
    Bhattamishra et al. 2020). Without a b, the label depends on the length alone. The length is the
    number of letters.
    """

    b_fraction: float = 0.2
    name: ClassVar[str] = "aa_star"

    def sample(self, rng: random.Random, length: int) -> Example:
        """All a's, or with some of them replaced by b's."""
        symbols = ["a"] * length
        if rng.random() < self.b_fraction:
            for position in rng.sample(range(length), rng.randint(1, max(1, length // 4))):
                symbols[position] = "b"
        text = "".join(symbols)
        return Example(text, aa_star_label(text))


def aa_star_label(text: str) -> str:
    """Whether a string is in (aa)*.

    >>> aa_star_label("aaaa"), aa_star_label("aaa"), aa_star_label("ab")
    ('yes', 'no', 'no')
    """
    return "yes" if len(text) % 2 == 0 and set(text) <= {"a"} else "no"


LETTERS = string.ascii_lowercase


@dataclass(frozen=True, kw_only=True)
class Copying(ExampleGenerator):
    """Copy or reverse a string over the first `symbols` letters; the length is the number of letters.

    A model with a state of fixed size fails on long strings (Jelassi et al. 2024).
    """

    symbols: int = 8
    backwards: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.symbols <= len(LETTERS):
            raise RegardError(f"symbols={self.symbols}: use 2 to {len(LETTERS)} letters.")

    @property
    def name(self) -> str:
        """The task's name."""
        return "reverse" if self.backwards else "copy"

    def sample(self, rng: random.Random, length: int) -> Example:
        """Independent uniform letters."""
        text = "".join(rng.choice(LETTERS[: self.symbols]) for _ in range(length))
        return Example(text, text[::-1] if self.backwards else text)


QUERY = "?"


@dataclass(frozen=True, kw_only=True)
class Associations(ExampleGenerator):
    """Associative recall: key–value pairs, then a query key; the target is its value.

    Every string has pairs of its own, so nothing can be memorised in the parameters. A state of fixed
    size holds a limited number of pairs (Ba et al. 2016; Arora et al. 2024). Keys are distinct, values
    need not be. The length is the number of pairs.
    """

    keys: int = 64
    values: int = 16
    name: ClassVar[str] = "associative_recall"

    def __post_init__(self) -> None:
        for name in ("keys", "values"):
            if getattr(self, name) < 2:
                raise RegardError(f"{name}={getattr(self, name)}: use 2 or more.")

    def num_tokens(self, length: int) -> int:
        """Two per pair, and the query."""
        return 2 * length + 2

    def sample(self, rng: random.Random, length: int) -> Example:
        """Key–value pairs, then the key of one of them."""
        if length > self.keys:
            raise RegardError(
                f"{length} pairs need as many keys, but keys={self.keys}. Use more keys, or fewer pairs."
            )
        names = [f"k{number}" for number in rng.sample(range(self.keys), length)]
        values = {name: f"v{rng.randrange(self.values)}" for name in names}
        query = rng.choice(names)
        pairs = " ".join(f"{name} {value}" for name, value in values.items())
        return Example(f"{pairs} {QUERY} {query}", values[query])


OPENING, CLOSING = "([{<", ")]}>"


@dataclass(frozen=True, kw_only=True)
class Brackets(ExampleGenerator):
    """Balanced brackets of `kinds` kinds, nested at most `depth` deep: bounded Dyck languages.

    Half of the strings are balanced. Of the others, half are balanced strings with two brackets swapped,
    so that counting brackets is not enough; the rest have one bracket replaced. Unbounded depth gives the
    Dyck language (Chomsky and Schützenberger 1963); with bounded depth the language is regular. The length
    is the number of brackets.
    """

    kinds: int = 2
    depth: int = 4
    name: ClassVar[str] = "brackets"
    min_length: ClassVar[int] = 2
    length_step: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not 1 <= self.kinds <= len(OPENING):
            raise RegardError(f"kinds={self.kinds}: use 1 to {len(OPENING)} kinds of brackets.")
        if self.depth < 1:
            raise RegardError(f"depth={self.depth}: use 1 or more.")

    def sample(self, rng: random.Random, length: int) -> Example:
        """A balanced string, or a corrupted one."""
        symbols = self._balanced(rng, length)
        if rng.random() < 0.5:
            self._unbalance(rng, symbols)
        text = "".join(symbols)
        return Example(text, "yes" if is_balanced(text) else "no")

    def _balanced(self, rng: random.Random, length: int) -> list[str]:
        symbols: list[str] = []
        stack: list[str] = []
        for remaining in range(length, 0, -1):
            must_close = len(stack) in (remaining, self.depth)
            if stack and (must_close or rng.random() < 0.5):
                symbols.append(stack.pop())
            else:
                kind = rng.randrange(self.kinds)
                symbols.append(OPENING[kind])
                stack.append(CLOSING[kind])
        return symbols

    def _unbalance(self, rng: random.Random, symbols: list[str]) -> None:
        """Replace one bracket by another, or swap two."""
        if rng.random() < 0.5:
            position = rng.randrange(len(symbols))
            others = OPENING[: self.kinds] + CLOSING[: self.kinds]
            symbols[position] = rng.choice(others.replace(symbols[position], ""))
            return
        while is_balanced("".join(symbols)):  # a swap can leave the string balanced
            one, other = rng.sample(range(len(symbols)), 2)
            symbols[one], symbols[other] = symbols[other], symbols[one]


def is_balanced(text: str) -> bool:
    """Whether every bracket is closed by one of its kind, in order.

    >>> is_balanced("([])"), is_balanced("([)]"), is_balanced("((")
    (True, False, False)
    """
    stack: list[str] = []
    for symbol in text:
        if symbol in OPENING:
            stack.append(CLOSING[OPENING.index(symbol)])
        elif not stack or stack.pop() != symbol:
            return False
    return not stack


def nesting_depth(text: str) -> int:
    """The maximum number of open brackets, of any kind.

    >>> nesting_depth("([])()")
    2
    """
    deepest = depth = 0
    for symbol in text:
        depth += 1 if symbol in OPENING else -1
        deepest = max(deepest, depth)
    return deepest


OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda digits: int(statistics.median(digits)),
    "[SM": lambda digits: sum(digits) % 10,
}
LIST_END = "]"
NESTING_PROBABILITY = 0.4


@dataclass(frozen=True, kw_only=True)
class ListOperations(ExampleGenerator):
    """ListOps: nested operations on digits (Nangia and Bowman 2018), at most `depth` lists deep.

    MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10); the value is a digit. The length is
    the number of tokens.
    """

    depth: int = 3
    name: ClassVar[str] = "listops"
    min_length: ClassVar[int] = 3

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise RegardError(f"depth={self.depth}: use 1 or more.")

    def sample(self, rng: random.Random, length: int) -> Example:
        """A random expression of exactly `length` tokens."""
        text = " ".join(_sample_list(rng, length, self.depth))
        return Example(text, str(evaluate_listops(text)))


def evaluate_listops(text: str) -> int:
    """The value of a ListOps expression.

    >>> evaluate_listops("[SM 7 [MED 1 2 6 ] 4 ]")
    3
    """
    open_lists: list[tuple[str, list[int]]] = []
    value = 0
    for token in text.split():
        if token in OPERATIONS:
            open_lists.append((token, []))
            continue
        if token == LIST_END:
            operation, digits = open_lists.pop()
            value = OPERATIONS[operation](digits)
        else:
            value = int(token)
        if open_lists:
            open_lists[-1][1].append(value)
    return value


def _sample_list(rng: random.Random, length: int, depth: int) -> list[str]:
    tokens = [rng.choice(list(OPERATIONS))]
    remaining = length - 2
    while remaining:
        if depth > 1 and remaining >= 3 and rng.random() < NESTING_PROBABILITY:
            element = _sample_list(rng, rng.randint(3, remaining), depth - 1)
        else:
            element = [str(rng.randrange(10))]
        tokens += element
        remaining -= len(element)
    return [*tokens, LIST_END]
