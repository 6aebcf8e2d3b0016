"""Copying: a string to itself, or to itself backwards.

    copy       cab  →  cab
    reverse    cab  →  bac

What is easy for attention and hard for a memory of fixed size; how far it reaches beyond the lengths it
was learned at is another question (Jelassi et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.data.strings.copying import Copying
from regard.data.strings.drawing import Rule
from regard.tasks.drawn_pairs import DrawnPairOptions, DrawnPairTask


@dataclass(frozen=True, kw_only=True)
class CopyOptions(DrawnPairOptions):
    """As `DrawnPairOptions`: a length is a number of letters. And:

    symbols     how many letters there are
    """

    symbols: int = 8
    test_longest: int = 32


class Copy(DrawnPairTask):
    """A string to itself."""

    options_class = CopyOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Letters."""
        return Copying(symbols=options.symbols)


class Reverse(DrawnPairTask):
    """A string to itself backwards."""

    options_class = CopyOptions

    @classmethod
    def rule(cls, options: Any) -> Rule:
        """Letters, which are to be turned round."""
        return Copying(symbols=options.symbols, backwards=True)
