"""Nested brackets of k kinds, to a depth: is every bracket closed by one of its kind, in order?

    ( [ ] )   →  yes
    ( [ ) ]   →  no

Half of the strings are balanced. Half of the others are balanced ones in which two brackets have changed
places, so that counting brackets does not tell them; in the rest one bracket is another. With depth not
bounded this is the Dyck language of k kinds, out of which every context-free language is made (Chomsky
and Schützenberger 1963); with it, it is regular.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from regard.core.errors import RegardError
from regard.data.strings.drawing import Example

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
