"""PARITY: is the number of ones odd?

    0 1 1 0 1   →  odd
    1 1 0       →  even

Changing any one symbol changes the answer, so that no symbol may be overlooked: what a recurrent layer
does with one bit of memory is hard for attention, which averages (Hahn 2020).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from regard.data.strings.drawing import Example

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
