"""Nested brackets: is every bracket closed by one of its kind, in order?

    ( [ ] )   →  yes
    ( [ ) ]   →  no

Hierarchy in its smallest form: how deep and how long the strings are can be set apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.strings.brackets import Brackets
from regard.data.strings.drawing import Rule
from regard.tasks.drawn_labels import DrawnLabelOptions, DrawnLabelTask


@dataclass(frozen=True, kw_only=True)
class BracketsOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of brackets, and even. And:

    kinds     of brackets, 1 to 4
    depth     how many are open at once in a balanced string, at most
    """

    kinds: int = 2
    depth: int = 4
    shortest: int = 2
    longest: int = 20
    test_shortest: int = 22
    test_longest: int = 80


class BracketsTask(DrawnLabelTask):
    """Whether a string is balanced."""

    options_class = BracketsOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Balanced strings, and spoilt ones."""
        return Brackets(kinds=options.kinds, depth=options.depth)
