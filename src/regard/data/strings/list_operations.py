"""Operations on nested lists of digits, whose value is a digit (ListOps; Nangia and Bowman 2018).

[MAX 2 9 [MIN 4 7 ] 0 ]   →  9

MIN, MAX   the smallest, the largest
MED        the middle one; of two in the middle, their mean without what is behind the point
SM         the sum, of which the last digit counts
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from regard.core.errors import RegardError
from regard.data.strings.drawing import Example

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
