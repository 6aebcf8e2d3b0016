"""(aa)*: an even number of a's, and nothing else.

    a a a a   →  yes
    a a a     →  no

Of each length there is one string of a's only, so that the lengths of some are held out to develop on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.core.errors import RegardError
from regard.data.strings.drawing import Rule
from regard.data.strings.even_as import EvenAs
from regard.tasks.drawn_labels import DrawnLabelOptions, DrawnLabelTask


@dataclass(frozen=True, kw_only=True)
class EvenAsOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of symbols. And:

    b_share     how many of the strings have a b among the a's
    """

    b_share: float = 0.2
    longest: int = 40
    test_shortest: int = 41
    test_longest: int = 160
    dev_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.b_share < 1:
            raise RegardError(f"task.b_share={self.b_share}: it must be from 0 to below 1.")


class EvenAsTask(DrawnLabelTask):
    """Whether a string is in the language."""

    options_class = EvenAsOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """a's, and some b's."""
        return EvenAs(b_share=options.b_share)
