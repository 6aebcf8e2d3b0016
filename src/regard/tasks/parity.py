"""PARITY: is the number of ones in a string of bits odd?

    0 1 1 0 1   →  odd

Trained on short strings and tested on longer ones: a recurrent layer carries on with what it has learned, a
Transformer of fixed size does not (Hahn 2020; Bhattamishra et al. 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.strings.drawing import Rule
from regard.data.strings.parity import Parity
from regard.tasks.drawn_labels import DrawnLabelOptions, DrawnLabelTask


@dataclass(frozen=True, kw_only=True)
class ParityOptions(DrawnLabelOptions):
    """As `DrawnLabelOptions`: a length is a number of bits."""


class ParityTask(DrawnLabelTask):
    """The rule has no options."""

    options_class = ParityOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Bits."""
        del options
        return Parity()
