"""The pace of a machine that others share: how long a fixed piece of work takes at this moment.

Clocks and neighbours change what a shared machine gives, by half and within seconds. Times that are to be
compared are therefore taken beside a probe, and told at one pace: that of the calibration.
"""

from __future__ import annotations

import time
from statistics import median

import torch

WIDTH = 192
NUMBERS = 1 << 16
CALLS = 60
ROUNDS = 5
# A pace older than this is taken anew.
SECONDS_VALID = 0.15


class Pace:
    """Probes the machine when asked, at most every `SECONDS_VALID`; 1 is the pace of `reference`."""

    def __init__(self, reference: float | None = None) -> None:
        self.reference = probe() if reference is None else reference
        self.found: list[float] = []
        self._taken_at = float("-inf")

    def now(self) -> float:
        """How many times longer work takes now than at the reference's pace."""
        if time.monotonic() - self._taken_at > SECONDS_VALID:
            self.found.append(probe())
            self._taken_at = time.monotonic()
        return self.found[-1] / self.reference


def probe() -> float:
    """Seconds of a fixed piece of work: a product, an elementwise function, calls of operators."""
    matrix, numbers, few = (
        torch.full((WIDTH, WIDTH), 0.5),
        torch.full((NUMBERS,), 0.5),
        torch.ones(4),
    )
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        matrix @ matrix
        numbers.exp()
        for _ in range(CALLS):
            few + few
        times.append(time.perf_counter() - began)
    return median(times)
