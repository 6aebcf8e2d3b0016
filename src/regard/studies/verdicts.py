"""The words a comparison may end in, and the parts that both kinds of comparison share.

There are two questions, and an answer to one is never an answer to the other:

- `item_comparison.py`: are *these trained models* better on items like those of this test set?
- `seed_comparison.py`: is the *method* better, whatever seed it is trained with?
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from regard.core.errors import RegardError

LEVEL = 0.05
"""How often a study of equal arms may claim any difference at all."""

Verdict = Literal["better", "worse", "cannot tell apart", "these runs only"]
"""Said of the first arm of a pair: it is better or worse than the second."""


class Interval(NamedTuple):
    """Where a figure lies, with a confidence that its owner names."""

    low: float
    high: float


@dataclass(frozen=True)
class ExcludedArm:
    """An arm that was left out of every comparison, and why."""

    arm: str
    reason: str


def claimed(
    difference: float, *, adjusted_p: float, lower_is_better: bool
) -> Literal["better", "worse", "cannot tell apart"]:
    """The verdict on the first arm when the difference is the first score minus the second.

    >>> claimed(-1.5, adjusted_p=0.01, lower_is_better=True)
    'better'
    """
    if adjusted_p > LEVEL:
        return "cannot tell apart"
    return "better" if (difference < 0) == lower_is_better else "worse"


def without_spread_p(*, observations: int) -> float:
    """The p of observations that all show the very same difference: a sign test.

    A t test or a bootstrap would be infinitely sure, since it has seen no chance at work. All that
    such observations show is that each of them points the same way, as coins do once in 2ⁿ⁻¹.

    >>> without_spread_p(observations=5)
    0.0625
    """
    return 2.0 ** (1 - observations)


def require_arms(arms: Iterable[str]) -> None:
    """Refuse a study without arms."""
    if not list(arms):
        raise RegardError("There is nothing to compare: 0 arms. Give at least one arm.")
