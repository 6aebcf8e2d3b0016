"""How the learning rate goes over a run, as a factor of its peak.

    constant       ▁▃▅███████████     rises over the warm-up, stays
    linear         ▁▃▅▇▇▆▅▄▃▃▂▁▁     × a line from 1 down to final_fraction
    cosine         ▁▃▅▇▇▇▆▅▃▂▁▁▁     × half a cosine from 1 down to final_fraction
    inverse_sqrt   ▁▃▅█▆▅▅▄▄▄▃▃▃     √(warm-up / step) after the warm-up (Vaswani et al. 2017, eq. 3)

The warm-up is counted in steps. The line and the cosine follow the share of the budget that is used;
with a budget of seconds that is time, and such a run is not reproducible bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


class Moment(NamedTuple):
    """Where a run stands: the number of the step at hand (the first is 1), the share used before it."""

    step: int
    share: float
    warmup_steps: int
    final_fraction: float

    @property
    def warmup(self) -> float:
        """From 1 / warmup_steps at the first step to 1 at the last one of the warm-up."""
        return min(1.0, self.step / max(1, self.warmup_steps))

    def falling(self, shape: float) -> float:
        """`shape` goes from 1 to 0; what comes back goes from 1 to final_fraction."""
        return self.final_fraction + (1.0 - self.final_fraction) * shape


def constant(moment: Moment) -> float:
    """The peak, once the warm-up is over."""
    return moment.warmup


def linear(moment: Moment) -> float:
    """A straight line to the end of the budget."""
    return moment.warmup * moment.falling(1.0 - moment.share)


def cosine(moment: Moment) -> float:
    """Half a period of a cosine to the end of the budget."""
    return moment.warmup * moment.falling((1.0 + math.cos(math.pi * moment.share)) / 2.0)


def inverse_sqrt(moment: Moment) -> float:
    """Falls with the square root of the step, whatever the budget."""
    return moment.warmup * math.sqrt(
        max(1, moment.warmup_steps) / max(moment.step, moment.warmup_steps, 1)
    )


SCHEDULES: dict[str, Callable[[Moment], float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "inverse_sqrt": inverse_sqrt,
}


# How much a run may use, and which share of it is used.
#
# A run has one to four limits and ends when the first is reached. The share is that of the limit
# which is nearest, from 0 to 1; schedules follow it, so a run that ends by tokens decays by tokens.
#
# >>> budget = Budget(steps=100, tokens=5000)
#
# >>> budget.share(Usage(steps=50, tokens=4000, seconds=3.0, operations=0)) 0.8


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
