"""Operations on nested lists of digits (ListOps): the value is a digit.

    [MAX 2 9 [MIN 4 7 ] 0 ]   →  9

What is inside must be worked out before what is outside (Nangia and Bowman 2018; Tay et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.strings.drawing import Rule
from regard.data.strings.list_operations import ListOperations
from regard.tasks.drawn_labels import DrawnLabelOptions, DrawnLabelTask


@dataclass(frozen=True, kw_only=True)
class ListOpsOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of tokens. And:

    depth     how many lists may be open at once
    """

    depth: int = 3
    tokens: str = "words"
    strings: int = 20000
    shortest: int = 3
    longest: int = 30
    test_shortest: int = 31
    test_longest: int = 100


class ListOpsTask(DrawnLabelTask):
    """The digit that an expression is worth."""

    options_class = ListOpsOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Lists of digits and lists."""
        return ListOperations(depth=options.depth)
