"""What a training run came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stopped = Literal["budget", "patience", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`best` are the scores of the evaluation with the best metric, `last` those of the last one.

    Counts and seconds are those of all sessions of a run together; `epochs` are passes over the
    data, the last one perhaps in part. `parameters` is how many numbers the model has.
    """

    steps: int
    epochs: float
    tokens: int
    operations: int
    seconds: float
    best: dict[str, float]
    last: dict[str, float]
    stopped: Stopped
    parameters: int
