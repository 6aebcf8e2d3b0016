"""Everything about a training run that is not the model or the task.

A run ends when the first of its budgets is used up: `steps` of the optimiser, `tokens` read or predicted,
`seconds` on the clock (evaluations counted), `operations` of the steps, forward and backward. Runs
with a budget of seconds are not reproducible bit by bit, since the learning rate follows the clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from regard.core.errors import RegardError
from regard.core.registry import unknown_name
from regard.training.schedule import SCHEDULES, Budget

BUDGETS = Budget._fields
# The names of the tables in optimizers.py and averaging.py, which import torch; a test compares them.
OPTIMIZER_NAMES = ("adamw", "muon")
AVERAGING_NAMES = ("none", "exponential", "last")
KEEP_NAMES = ("best", "last")
DEVICE_NAMES = ("cpu", "cuda", "mps", "auto")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How to train. At least one of the four budgets is needed.

    `weight_decay` is for the matrices of linear, convolutional and recurrent layers only.
    `final_fraction` is the share of the learning rate left at the end of the linear and cosine
    schedules. `accumulate` batches make one step. `patience` is how many evaluations in a row may
    bring no improvement. `keep` says which weights become model.safetensors, those with the best
    metric or the last; with averaging, averaged weights are evaluated and kept.
    """

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    operations: float | None = None
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    muon_learning_rate: float = 0.02
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    schedule: str = "linear"
    warmup_steps: int = 400
    final_fraction: float = 0.0
    clip_norm: float | None = 1.0
    accumulate: int = 1
    averaging: str = "none"
    average_decay: float = 0.999
    average_last: int = 5
    evaluate_every: int = 1000
    checkpoint_seconds: float = 60.0
    checkpoint_every: int | None = None
    patience: int | None = None
    keep: str = "best"
    log_every: int = 50
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse values with which no run could work."""
        for name, (kind, holds, rule) in RULES.items():
            _require(name, getattr(self, name), kind, holds, rule)
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise unknown_name(name, str(value), choices)
        if all(getattr(self, name) is None for name in BUDGETS):
            raise RegardError(
                f"The run has no budget, so it would never end. Give at least one of: {', '.join(BUDGETS)}."
            )

    @property
    def budget(self) -> Budget:
        """The four limits."""
        return Budget(*(getattr(self, name) for name in BUDGETS))

    def as_dict(self) -> dict[str, Any]:
        """Every option by name, as JSON can hold it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _require(name: str, value: Any, kind: type, holds: Callable[[Any], bool], rule: str) -> None:
    optional = name in OPTIONAL
    if value is None and optional:
        return
    right_kind = isinstance(value, int | float if kind is float else int)
    finite = right_kind and not isinstance(value, bool) and math.isfinite(value)
    if not (finite and holds(value)):
        way_out = f" Leave {name} away for no limit." if optional else ""
        raise RegardError(f"{name} is {value!r}; it must be {rule}.{way_out}")


def _positive(value: int | float) -> bool:
    return value > 0


def _not_negative(value: int | float) -> bool:
    return value >= 0


def _share(value: int | float) -> bool:
    return 0 <= value < 1


OPTIONAL = {*BUDGETS, "clip_norm", "checkpoint_every", "patience"}

_WHOLE = (int, _positive, "a whole number of at least 1")
_POSITIVE = (float, _positive, "a number above 0")
_NOT_NEGATIVE = (float, _not_negative, "a number of at least 0")
_SHARE = (float, _share, "a number from 0 up to, but not including, 1")

# option → the kind of number, what must hold, the same in words
RULES: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "steps": _WHOLE,
    "tokens": _WHOLE,
    "seconds": _POSITIVE,
    "operations": _POSITIVE,
    "learning_rate": _POSITIVE,
    "muon_learning_rate": _POSITIVE,
    "weight_decay": _NOT_NEGATIVE,
    "beta1": _SHARE,
    "beta2": _SHARE,
    "epsilon": _POSITIVE,
    "warmup_steps": (int, _not_negative, "a whole number of at least 0"),
    "final_fraction": (float, lambda value: 0 <= value <= 1, "a number from 0 to 1"),
    "clip_norm": _POSITIVE,
    "accumulate": _WHOLE,
    "average_decay": _SHARE,
    "average_last": _WHOLE,
    "evaluate_every": _WHOLE,
    "checkpoint_seconds": _NOT_NEGATIVE,
    "checkpoint_every": _WHOLE,
    "patience": _WHOLE,
    "log_every": _WHOLE,
}

CHOICES = {
    "optimizer": OPTIMIZER_NAMES,
    "schedule": tuple(SCHEDULES),
    "averaging": AVERAGING_NAMES,
    "keep": KEEP_NAMES,
    "device": DEVICE_NAMES,
}
