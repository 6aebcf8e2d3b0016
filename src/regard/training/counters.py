"""Where a run stands between two steps: all that is not a tensor."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from regard.training.budget import Usage


@dataclass(kw_only=True)
class Counters:
    """The next batch is number `batch` of epoch `epoch`.

    `loss_total` and `loss_count` are summed since the last row of metrics; the learning rate and the
    norm of the gradient are those of the last step. `waited` counts evaluations since the best one.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    operations: int = 0
    seconds: float = 0.0
    loss_total: float = 0.0
    loss_count: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0
    best: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    evaluated_step: int = -1
    kept_step: int = -1
    waited: int = 0
    finished: Literal["budget", "patience"] | None = None

    @property
    def used(self) -> Usage:
        """What counts against a budget."""
        return Usage(self.step, self.tokens, self.seconds, self.operations)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def note_scores(
        self, scores: dict[str, float], *, metric: str, lower_is_better: bool, keep: str
    ) -> bool:
        """Take in an evaluation, and whether its weights are to be kept; true if it is the best so far."""
        improved = _is_better(
            scores[metric], self.best.get(metric), lower_is_better=lower_is_better
        )
        if improved:
            self.best = scores
        self.waited = 0 if improved else self.waited + 1
        self.last = scores
        self.evaluated_step = self.step
        if improved or keep == "last":
            self.kept_step = self.step
        return improved


def _is_better(value: float, best: float | None, *, lower_is_better: bool) -> bool:
    if math.isnan(value):
        return False
    if best is None:
        return True
    return value < best if lower_is_better else value > best
