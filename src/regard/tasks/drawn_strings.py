"""What every task on drawn strings can be told: how many, of which lengths, drawn from what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from regard.core.errors import RegardError
from regard.data.strings.drawing import Rule


@dataclass(frozen=True, kw_only=True)
class DrawnStrings:
    """Strings to develop on are held out by their hash, so of the lengths that are learned from.

    strings          how many are drawn to learn from and to develop on; the same may come twice
    shortest         the least length of these; `longest` the greatest
    test_strings     how many are drawn to test on: others, usually longer
    test_shortest    the least length of these; `test_longest` the greatest
    drawn_from       another number gives other strings; a run's seed changes none
    """

    strings: int = 4000
    shortest: int = 1
    longest: int = 16
    test_strings: int = 1000
    test_shortest: int = 17
    test_longest: int = 64
    drawn_from: int = 0

    def to_learn(self) -> dict[str, int]:
        """The words of `DrawnExamples` for what is learned from and developed on."""
        return {
            "shortest": self.shortest,
            "longest": self.longest,
            "count": self.strings,
            "seed": 2 * self.drawn_from,
        }

    def to_test(self, shortest: int | None = None, longest: int | None = None) -> dict[str, int]:
        """The words of `DrawnExamples` for the test part, or for one of these lengths."""
        return {
            "shortest": self.test_shortest if shortest is None else shortest,
            "longest": self.test_longest if longest is None else longest,
            "count": self.test_strings,
            # Odd, so that no part of any lengths is drawn as the one that is learned from.
            "seed": 2 * self.drawn_from + 1,
        }


def require_drawn(options: Any, files: Iterable[str]) -> None:
    """Refuse files and numbers that make no strings."""
    for name in files:
        if getattr(options, name) is not None:
            raise RegardError(
                f"task.{name}={getattr(options, name)!r}: the strings of this task are drawn, not read. "
                "Leave it away; to learn from a file, use the task 'classify' or 'translate'."
            )
    for name in ("strings", "test_strings", "shortest", "test_shortest"):
        if getattr(options, name) < 1:
            raise RegardError(f"task.{name}={getattr(options, name)}: it must be 1 or more.")
    for first, last in (("shortest", "longest"), ("test_shortest", "test_longest")):
        if getattr(options, first) > getattr(options, last):
            raise RegardError(
                f"task.{first}={getattr(options, first)} is more than "
                f"task.{last}={getattr(options, last)}. Swap them."
            )


def require_room(rule: Rule, options: Any, *, frame: int) -> None:
    """Refuse strings that would be cut off: what is cut may be what the answer depends on."""
    length = max(options.longest, options.test_longest)
    places = rule.tokens(length) + frame
    if places > options.max_length:
        raise RegardError(
            f"A string of length {length} takes {places} places, but task.max_length is "
            f"{options.max_length}. Raise it, or lower task.longest and task.test_longest."
        )
