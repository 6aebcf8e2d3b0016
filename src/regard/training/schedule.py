"""Learning-rate schedules and training budgets.

A schedule is a factor of the peak learning rate, a function in `SCHEDULES`:

    constant       ▁▃▅███████████     linear warm-up, then constant
    linear         ▁▃▅▇▇▆▅▄▃▃▂▁▁     linear decay from 1 to final_fraction
    cosine         ▁▃▅▇▇▇▆▅▃▂▁▁▁     cosine decay from 1 to final_fraction
    inverse_sqrt   ▁▃▅█▆▅▅▄▄▄▃▃▃     √(warmup_steps / step) after the warm-up (Vaswani et al. 2017, eq. 3)

The warm-up is counted in steps. Linear and cosine decay follow the fraction of the budget that is used, so
a run that ends by tokens decays by tokens. With a budget of seconds they follow the clock, and the run is
not reproducible bit for bit.

A budget has one to four limits, and ends when the first is reached:

    >>> budget = Budget(steps=100, tokens=5000)
    >>> budget.progress(Usage(steps=50, tokens=4000, seconds=3.0, flops=0))
    0.8
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


class ScheduleState(NamedTuple):
    """The current step, counted from 1, and the fraction of the budget used before it."""

    step: int
    progress: float
    warmup_steps: int
    final_fraction: float

    @property
    def warmup(self) -> float:
        """The warm-up factor: 1 / warmup_steps at the first step, 1 from the last warm-up step on."""
        return min(1.0, self.step / max(1, self.warmup_steps))

    def decay(self, shape: float) -> float:
        """`shape` from 1 to 0, rescaled to decay from 1 to final_fraction."""
        return self.final_fraction + (1.0 - self.final_fraction) * shape


def constant(state: ScheduleState) -> float:
    """The peak after the warm-up."""
    return state.warmup


def linear(state: ScheduleState) -> float:
    """Linear decay until the budget is used."""
    return state.warmup * state.decay(1.0 - state.progress)


def cosine(state: ScheduleState) -> float:
    """Half a cosine period until the budget is used."""
    return state.warmup * state.decay((1.0 + math.cos(math.pi * state.progress)) / 2.0)


def inverse_sqrt(state: ScheduleState) -> float:
    """Inverse square root of the step, independent of the budget."""
    return state.warmup * math.sqrt(
        max(1, state.warmup_steps) / max(state.step, state.warmup_steps, 1)
    )


SCHEDULES: dict[str, Callable[[ScheduleState], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "inverse_sqrt": inverse_sqrt,
}


class Usage(NamedTuple):
    """What a run has used so far, over all its sessions."""

    steps: int
    tokens: int
    seconds: float
    flops: int


class Budget(NamedTuple):
    """The limits of a run; None for no limit."""

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    flops: float | None = None

    def progress(self, used: Usage) -> float:
        """The largest used fraction of any limit, at most 1; 0 without limits."""
        fractions = [
            amount / limit for amount, limit in zip(used, self, strict=True) if limit is not None
        ]
        return min(1.0, max(fractions, default=0.0))

    def is_exhausted(self, used: Usage) -> bool:
        """Whether a limit is reached."""
        return any(
            limit is not None and amount >= limit for amount, limit in zip(used, self, strict=True)
        )
