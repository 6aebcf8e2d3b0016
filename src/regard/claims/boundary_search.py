"""Where a statement stops to hold, found by halving: for statements that hold up to a bound, not beyond."""

from __future__ import annotations

from collections.abc import Callable

from regard.core.errors import RegardError

HALVINGS = 50


def last_that_holds(
    holds: Callable[[float], bool], *, low: float, high: float, halvings: int = HALVINGS
) -> float:
    """The largest number between `low`, where it holds, and `high`, where it does not.

    >>> round(last_that_holds(lambda x: x * x <= 2, low=0.0, high=2.0), 9)
    1.414213562
    """
    if not holds(low) or holds(high):
        raise RegardError(
            f"There is no boundary between {low} and {high}: the statement must hold at the first and not "
            "at the second. Choose others."
        )
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
