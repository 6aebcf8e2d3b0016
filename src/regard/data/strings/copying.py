"""Copying: a string to itself, or to itself backwards.

    copy       c a b   →  c a b
    reverse    c a b   →  b a c

Nothing has to be understood, only kept and found again in order: a model whose memory does not grow with
the string fails on long ones (Jelassi et al. 2024). Backwards, what is written first was read last, which a
recurrent model likes better, and attention must turn its order round.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass
from typing import ClassVar

from regard.core.errors import RegardError
from regard.data.strings.drawing import Example

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
