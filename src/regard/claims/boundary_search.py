"""Where a statement stops to hold, found by halving: for statements that hold up to a bound, not beyond.

Whether there is such a bound is for the claim to say: a statement that holds nowhere, or everywhere, is a
finding as any other.
"""

from __future__ import annotations

from collections.abc import Callable

HALVINGS = 50


def last_that_holds(
    holds: Callable[[float], bool], *, low: float, high: float, halvings: int = HALVINGS
) -> float | None:
    """The largest number between `low` and `high` at which it holds; None if not even at `low`.

    If it holds at `high`, that is the answer: there is no bound within what was searched.

    >>> round(last_that_holds(lambda x: x * x <= 2, low=0.0, high=2.0), 9)
    1.414213562
    >>> last_that_holds(lambda x: x * x <= 2, low=0.0, high=1.0)
    1.0
    """
    if not holds(low):
        return None
    if holds(high):
        return high
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
