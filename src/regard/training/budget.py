"""How much a run may use, and which share of it is used.

A run has one to four limits and ends when the first is reached. The share is that of the limit which
is nearest, from 0 to 1; schedules follow it, so a run that ends by tokens decays by tokens.

    >>> budget = Budget(steps=100, tokens=5000)
    >>> budget.share(Usage(steps=50, tokens=4000, seconds=3.0, operations=0))
    0.8
"""

from __future__ import annotations

from typing import NamedTuple


class Usage(NamedTuple):
    """What a run has used so far, all its sessions together."""

    steps: int
    tokens: int
    seconds: float
    operations: int


class Budget(NamedTuple):
    """The limits; None is no limit."""

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    operations: float | None = None

    def share(self, used: Usage) -> float:
        """The largest used share of any limit, at most 1; 0 without limits."""
        shares = [
            amount / limit for amount, limit in zip(used, self, strict=True) if limit is not None
        ]
        return min(1.0, max(shares, default=0.0))

    def is_used(self, used: Usage) -> bool:
        """Whether a limit is reached."""
        return any(
            limit is not None and amount >= limit for amount, limit in zip(used, self, strict=True)
        )
