"""Rows of drawn strings: what `LabelledSource` and `PairSource` are to a file, these are to a rule.

    DrawnLabels(rule=Parity(), shortest=1, longest=8, count=1000, seed=0).rows(bad=BadRows())

A rule draws one string of a given length and says its answer. What is drawn is a function of the rule,
the lengths, the count and the seed alone, so that the rows can be read as often as needed.
"""

from __future__ import annotations

import random
import statistics
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from regard.core.errors import RegardError
from regard.data.readers.formats import PairRow
from regard.data.readers.labelled import LabelledRow
from regard.data.readers.text_file import BadRows


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


# PARITY: is the number of ones odd?
#
# 0 1 1 0 1   →  odd 1 1 0       →  even
#
# Changing any one symbol changes the answer, so that no symbol may be overlooked: what a recurrent
# layer does with one bit of memory is hard for attention, which averages (Hahn 2020).


LABELS = ("even", "odd")


@dataclass(frozen=True, kw_only=True)
class Parity:
    """A length is a number of bits; zeros and ones are as likely, and so are the answers."""

    name: ClassVar[str] = "parity"
    least: ClassVar[int] = 1
    step: ClassVar[int] = 1

    def tokens(self, length: int) -> int:
        """One a bit."""
        return length

    def draw(self, chance: random.Random, length: int) -> Example:
        """Bits, each thrown by itself."""
        text = "".join(chance.choice("01") for _ in range(length))
        return Example(text, parity_of(text))


def parity_of(text: str) -> str:
    """Whether the number of ones is even or odd.

    >>> parity_of("0110"), parity_of("100")
    ('even', 'odd')
    """
    return LABELS[text.count("1") % 2]


# (aa)*: an even number of a's, and nothing else.
#
# a a a a   →  yes a a a     →  no a a b a   →  no
#
# The simplest language that a formula of first order with an order of places cannot say: it takes
# counting by two, and of each length there is one string of a's only (Hahn 2020; Bhattamishra et
# al. 2020). Unlike in PARITY, the answer is in the length alone once there is no b.


@dataclass(frozen=True, kw_only=True)
class EvenAs:
    """A length is a number of symbols; `b_share` of the strings have a b or more among the a's."""

    b_share: float = 0.2
    name: ClassVar[str] = "even_as"
    least: ClassVar[int] = 1
    step: ClassVar[int] = 1

    def tokens(self, length: int) -> int:
        """One a symbol."""
        return length

    def draw(self, chance: random.Random, length: int) -> Example:
        """All a's, or as many with some of them replaced."""
        symbols = ["a"] * length
        if chance.random() < self.b_share:
            for place in chance.sample(range(length), chance.randint(1, max(1, length // 4))):
                symbols[place] = "b"
        text = "".join(symbols)
        return Example(text, answer_to(text))


def answer_to(text: str) -> str:
    """Whether a string is in the language.

    >>> answer_to("aaaa"), answer_to("aaa"), answer_to("ab")
    ('yes', 'no', 'no')
    """
    return "yes" if len(text) % 2 == 0 and set(text) <= {"a"} else "no"


# Copying: a string to itself, or to itself backwards.
#
# copy       c a b   →  c a b reverse    c a b   →  b a c
#
# Nothing has to be understood, only kept and found again in order: a model whose memory does not
# grow with the string fails on long ones (Jelassi et al. 2024). Backwards, what is written first
# was read last, which a recurrent model likes better, and attention must turn its order round.


LETTERS = string.ascii_lowercase


@dataclass(frozen=True, kw_only=True)
class Copying:
    """A length is a number of letters, drawn from the first `symbols` of the alphabet."""

    symbols: int = 8
    backwards: bool = False
    least: ClassVar[int] = 1
    step: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 2 <= self.symbols <= len(LETTERS):
            raise RegardError(f"symbols={self.symbols}: use 2 to {len(LETTERS)} letters.")

    @property
    def name(self) -> str:
        """The problem."""
        return "reverse" if self.backwards else "copy"

    def tokens(self, length: int) -> int:
        """One a letter."""
        return length

    def draw(self, chance: random.Random, length: int) -> Example:
        """Letters, each drawn by itself."""
        text = "".join(chance.choice(LETTERS[: self.symbols]) for _ in range(length))
        return Example(text, text[::-1] if self.backwards else text)


# Associative recall: keys with a value each, then one of the keys again: what was its value?
#
# k4 v1 k0 v7 k9 v1 ? k0   →  v7
#
# Every string has pairs of its own, so that nothing can be learned by heart: the pairs must be kept
# while they are read. Softmax attention keeps them all; a state of fixed size keeps as many as it
# has room for (Ba et al. 2016; Arora et al. 2024).


ASKED = "?"


@dataclass(frozen=True, kw_only=True)
class Associations:
    """A length is a number of pairs; their keys differ, two may have one value."""

    keys: int = 64
    values: int = 16
    name: ClassVar[str] = "associate"
    least: ClassVar[int] = 1
    step: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("keys", "values"):
            if getattr(self, name) < 2:
                raise RegardError(f"{name}={getattr(self, name)}: use 2 or more.")

    def tokens(self, length: int) -> int:
        """Two a pair, and the question."""
        return 2 * length + 2

    def draw(self, chance: random.Random, length: int) -> Example:
        """Pairs, then the key of one of them."""
        if length > self.keys:
            raise RegardError(
                f"{length} pairs need as many keys, but keys={self.keys}. Use more keys, or fewer pairs."
            )
        names = [f"k{number}" for number in chance.sample(range(self.keys), length)]
        values = {name: f"v{chance.randrange(self.values)}" for name in names}
        asked = chance.choice(names)
        told = " ".join(f"{name} {value}" for name, value in values.items())
        return Example(f"{told} {ASKED} {asked}", values[asked])


def recalled(text: str) -> str:
    """The value of the key that is asked for.

    >>> recalled("k4 v1 k0 v7 ? k0")
    'v7'
    """
    *told, _, asked = text.split()
    return told[told.index(asked) + 1]


# Nested brackets of k kinds, to a depth: is every bracket closed by one of its kind, in order?
#
# ( [ ] )   →  yes ( [ ) ]   →  no
#
# Half of the strings are balanced. Half of the others are balanced ones in which two brackets have
# changed places, so that counting brackets does not tell them; in the rest one bracket is another.
# With depth not bounded this is the Dyck language of k kinds, out of which every context-free
# language is made (Chomsky and Schützenberger 1963); with it, it is regular.


OPENING, CLOSING = "([{<", ")]}>"


@dataclass(frozen=True, kw_only=True)
class Brackets:
    """A length is a number of brackets; a balanced string is nested `depth` deep at most."""

    kinds: int = 2
    depth: int = 4
    name: ClassVar[str] = "brackets"
    least: ClassVar[int] = 2
    step: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not 1 <= self.kinds <= len(OPENING):
            raise RegardError(
                f"kinds={self.kinds}: there are {len(OPENING)} kinds of brackets. Use 1 to 4."
            )
        if self.depth < 1:
            raise RegardError(f"depth={self.depth}: a bracket is 1 deep by itself. Use 1 or more.")

    def tokens(self, length: int) -> int:
        """One a bracket."""
        return length

    def draw(self, chance: random.Random, length: int) -> Example:
        """A balanced string, or one that is spoilt."""
        symbols = self._balanced(chance, length)
        if chance.random() < 0.5:
            self._spoil(chance, symbols)
        text = "".join(symbols)
        return Example(text, "yes" if is_balanced(text) else "no")

    def _balanced(self, chance: random.Random, length: int) -> list[str]:
        symbols: list[str] = []
        due: list[str] = []
        for left in range(length, 0, -1):
            must_close = len(due) in (left, self.depth)
            if due and (must_close or chance.random() < 0.5):
                symbols.append(due.pop())
            else:
                kind = chance.randrange(self.kinds)
                symbols.append(OPENING[kind])
                due.append(CLOSING[kind])
        return symbols

    def _spoil(self, chance: random.Random, symbols: list[str]) -> None:
        """Make it unbalanced: by another bracket, which always does, or by two that change places."""
        if chance.random() < 0.5:
            place = chance.randrange(len(symbols))
            others = OPENING[: self.kinds] + CLOSING[: self.kinds]
            symbols[place] = chance.choice(others.replace(symbols[place], ""))
            return
        while is_balanced("".join(symbols)):  # a second change may undo the first
            one, other = chance.sample(range(len(symbols)), 2)
            symbols[one], symbols[other] = symbols[other], symbols[one]


def is_balanced(text: str) -> bool:
    """Whether every bracket is closed by one of its kind, the last opened first.

    >>> is_balanced("([])"), is_balanced("([)]"), is_balanced("((")
    (True, False, False)
    """
    due: list[str] = []
    for symbol in text:
        if symbol in OPENING:
            due.append(CLOSING[OPENING.index(symbol)])
        elif not due or due.pop() != symbol:
            return False
    return not due


def depth_of(text: str) -> int:
    """How many brackets are open at once at most, whatever their kinds.

    >>> depth_of("([])()")
    2
    """
    deepest = now = 0
    for symbol in text:
        now += 1 if symbol in OPENING else -1
        deepest = max(deepest, now)
    return deepest


# Operations on nested lists of digits, whose value is a digit (ListOps; Nangia and Bowman 2018).
#
# [MAX 2 9 [MIN 4 7 ] 0 ]   →  9
#
# MIN, MAX   the smallest, the largest MED        the middle one; of two in the middle, their mean
# without what is behind the point SM         the sum, of which the last digit counts


OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda digits: int(statistics.median(digits)),
    "[SM": lambda digits: sum(digits) % 10,
}
END = "]"
NESTED_SHARE = 0.4  # of the places in a list where another list has room


@dataclass(frozen=True, kw_only=True)
class ListOperations:
    """A length is a number of tokens; lists stand in lists to `depth` of them."""

    depth: int = 3
    name: ClassVar[str] = "listops"
    least: ClassVar[int] = 3
    step: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise RegardError(f"depth={self.depth}: a list is 1 deep by itself. Use 1 or more.")

    def tokens(self, length: int) -> int:
        """As many as the length says."""
        return length

    def draw(self, chance: random.Random, length: int) -> Example:
        """A list whose parts are digits and lists, drawn until the length is used up."""
        text = " ".join(_drawn(chance, length, self.depth))
        return Example(text, str(value_of(text)))


def value_of(text: str) -> int:
    """The value of a list.

    >>> value_of("[SM 7 [MED 1 2 6 ] 4 ]")
    3
    """
    open_lists: list[tuple[str, list[int]]] = []
    value = 0
    for token in text.split():
        if token in OPERATIONS:
            open_lists.append((token, []))
            continue
        if token == END:
            operation, digits = open_lists.pop()
            value = OPERATIONS[operation](digits)
        else:
            value = int(token)
        if open_lists:
            open_lists[-1][1].append(value)
    return value


def _drawn(chance: random.Random, length: int, depth: int) -> list[str]:
    tokens = [chance.choice(list(OPERATIONS))]
    left = length - 2
    while left:
        if depth > 1 and left >= 3 and chance.random() < NESTED_SHARE:
            part = _drawn(chance, chance.randint(3, left), depth - 1)
        else:
            part = [str(chance.randrange(10))]
        tokens += part
        left -= len(part)
    return [*tokens, END]
