"""Associative recall: keys with a value each, then one of the keys again: what was its value?

    k4 v1 k0 v7 k9 v1 ? k0   →  v7

Every string has pairs of its own, so that nothing can be learned by heart: the pairs must be kept while
they are read. Softmax attention keeps them all; a state of fixed size keeps as many as it has room for
(Ba et al. 2016; Arora et al. 2024).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from regard.core.errors import RegardError
from regard.data.strings.drawing import Example

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
