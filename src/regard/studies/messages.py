"""What whoever does a job sends to whoever handed it out. Nothing here imports torch."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Standing(NamedTuple):
    """Where a run is: its share of the budget, its step, the seconds of all its sessions."""

    share: float
    step: int
    seconds: float


class Result(NamedTuple):
    """How a try ended; `seconds` went into training and scoring. A stopped run can go on later."""

    state: Literal["finished", "failed", "stopped"]
    seconds: float = 0.0
    reason: str = ""
    traceback: str = ""
