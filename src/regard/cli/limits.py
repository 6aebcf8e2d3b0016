"""Limits of time and memory as people write them: 4GB, 512MB, 1h, 90min, 45s."""

from __future__ import annotations

import re
from typing import NamedTuple

from regard.core.errors import RegardError

BYTES = {"GB": 1e9, "MB": 1e6}
SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0}
AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z]+)")


class Limits(NamedTuple):
    """What a run may take at most; no time is no limit."""

    memory: float
    seconds: float | None

    def beyond(self, *, memory: float, seconds: float) -> list[str]:
        """The names of the limits that this goes beyond."""
        too_long = self.seconds is not None and seconds > self.seconds
        return ["time"] * too_long + ["memory"] * (memory > self.memory)


def memory_limit(text: str) -> float:
    """Bytes.

    >>> memory_limit("4GB"), memory_limit("512MB")
    (4000000000.0, 512000000.0)
    """
    return _amount(text, BYTES, option="--memory", example="--memory 4GB")


def time_limit(text: str) -> float:
    """Seconds.

    >>> time_limit("1h"), time_limit("90min"), time_limit("45s")
    (3600.0, 5400.0, 45.0)
    """
    return _amount(text, SECONDS, option="--time", example="--time 90min")


def _amount(text: str, units: dict[str, float], *, option: str, example: str) -> float:
    found = AMOUNT.fullmatch(text)
    if found is None or found["unit"] not in units or not float(found["number"]):
        raise RegardError(
            f"{option} {text}: write a number above 0 and one of the units {', '.join(units)}, without a "
            f"space, such as {example}."
        )
    return float(found["number"]) * units[found["unit"]]
