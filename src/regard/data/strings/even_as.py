"""(aa)*: an even number of a's, and nothing else.

    a a a a   →  yes
    a a a     →  no
    a a b a   →  no

The simplest language that a formula of first order with an order of places cannot say: it takes counting
by two, and of each length there is one string of a's only (Hahn 2020; Bhattamishra et al. 2020). Unlike in
PARITY, the answer is in the length alone once there is no b.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from regard.data.strings.drawing import Example


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
