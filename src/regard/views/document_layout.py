"""Where the words of a document go: lines filled from the left, every sentence on a new line, in inches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from regard.views.figure_file import text_width

LONGEST_WORD = 32


class Place(NamedTuple):
    """The line of a word, counted from 0, and how far from the left its box begins."""

    line: int
    left: float
    width: float


def word_places(
    widths: Sequence[float],
    *,
    joins: Sequence[bool],
    starts: Collection[int],
    room: float,
    space: float,
) -> list[Place]:
    """A place a word, in order; words are `space` apart, or touch where one joins the one before.

    A word that does not fit goes to the next line; one wider than all the room stands alone and sticks out.

    >>> word_places([1.0, 2.0, 1.0], joins=[False] * 3, starts=[], room=3.5, space=0.5)[1:]
    [Place(line=0, left=1.5, width=2.0), Place(line=1, left=0.0, width=1.0)]
    """
    found: list[Place] = []
    line, right = 0, 0.0
    for number, width in enumerate(widths):
        left = right if joins[number] or right == 0 else right + space
        full = left > 0 and left + width > room
        if found and (full or number in starts):
            line, left = line + 1, 0.0
        found.append(Place(line, left, width))
        right = left + width
    return found


def cut_word(text: str) -> str:
    """A long word cut short, with a mark that it is.

    >>> cut_word("x" * 40) == "x" * 31 + "…"
    True
    """
    return text if len(text) <= LONGEST_WORD else f"{text[: LONGEST_WORD - 1]}…"


def wrapped_lines(text: str, *, room: float, font_size: float, weight: str = "normal") -> list[str]:
    """A text in lines that are at most so wide, broken between words; an endless word is cut short."""
    lines: list[str] = []
    for word in map(cut_word, text.split()):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, font_size=font_size, weight=weight) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
