"""Associative recall: keys with a value each, then one of the keys again: what was its value?

    k4 v1 k0 v7 k9 v1 ? k0   →  v7

The answer is one token, so that it is classified. How many pairs a model can keep is what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.strings.associations import Associations
from regard.data.strings.drawing import Rule
from regard.tasks.drawn_labels import DrawnLabelOptions, DrawnLabelTask


@dataclass(frozen=True, kw_only=True)
class AssociateOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of pairs. And:

    keys       how many there are; no more pairs fit into a string
    values     how many there are
    """

    keys: int = 64
    values: int = 16
    tokens: str = "words"
    strings: int = 20000
    longest: int = 16
    test_shortest: int = 17
    test_longest: int = 64


class AssociateTask(DrawnLabelTask):
    """The value of a key."""

    options_class = AssociateOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Pairs of a key and a value."""
        return Associations(keys=options.keys, values=options.values)
