"""Names beside the points of a chart, so that none covers another or a point.

Each name is tried on the sides of its point in turn. One that fits nowhere is left out, so those that
matter most come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LETTER, LINE = 6.9, 14.0
CLEAR = 9.0


class Box(NamedTuple):
    """A rectangle, from its left and top to its right and bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two have any place in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Label(NamedTuple):
    """Where a text begins ("start"), ends ("end") or has its middle, and on which line."""

    x: float
    y: float
    anchor: str


def label_places(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    *,
    within: Box,
    taken: Sequence[Box] = (),
    keen: int = 0,
) -> list[Label | None]:
    """A place for each text, or None; earlier ones choose first. `taken` is kept clear as well.

    The first `keen` texts may stand a little further off, where one cannot always tell whose they are.

    >>> room = Box(0.0, 0.0, 100.0, 100.0)
    >>> label_places([(50.0, 50.0), (52.0, 50.0)], ["one", "two"], within=room)[0]
    Label(x=59.0, y=54.0, anchor='start')
    """
    filled = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in points] + list(taken)
    found: list[Label | None] = []
    for place, ((x, y), text) in enumerate(zip(points, texts, strict=True)):
        width = LETTER * len(text)
        chosen = None
        for label, box in _tries(x, y, width, far=place < keen):
            inside = (
                box.left >= within.left
                and box.right <= within.right
                and box.top >= within.top
                and box.bottom <= within.bottom
            )
            if inside and not any(box.meets(other) for other in filled):
                chosen = label
                filled.append(box)
                break
        found.append(chosen)
    return found


def _tries(x: float, y: float, width: float, *, far: bool) -> list[tuple[Label, Box]]:
    tries = []
    levels = (0.0, -LINE, LINE, -1.7 * LINE, 1.7 * LINE)
    for down in levels if far else levels[:3]:
        middle = y + down
        top, bottom = middle - LINE / 2, middle + LINE / 2
        aside = CLEAR if not down else 0.0
        tries += [
            (
                Label(x + CLEAR, middle + 4, "start"),
                Box(x + aside, top, x + CLEAR + width, bottom),
            ),
            (Label(x - CLEAR, middle + 4, "end"), Box(x - CLEAR - width, top, x - aside, bottom)),
        ]
        if down:
            half = width / 2
            tries.append((Label(x, middle + 4, "middle"), Box(x - half, top, x + half, bottom)))
    return tries
