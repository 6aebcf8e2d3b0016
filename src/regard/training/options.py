"""Training options (hyperparameters): budget, optimizer, schedule, averaging, evaluation, early stopping.

A run ends when the first of its budgets is exhausted: optimizer `steps`, `tokens` read or predicted,
`seconds` of wall-clock time (evaluations included), `flops` of the steps, forward and backward. Runs with a
budget of seconds are not reproducible bit for bit, since the learning rate follows the clock.
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
# The names of the tables in optimizers.py and averaging.py, which import torch; a test compares both.
OPTIMIZER_NAMES = ("adamw", "muon")
AVERAGING_NAMES = ("none", "exponential", "last")
KEEP_NAMES = ("best", "last")
DEVICE_NAMES = ("cpu", "cuda", "mps", "auto")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Training options. At least one of the four budgets is required.

    `weight_decay` applies to the matrices of linear, convolutional and recurrent layers only.
    `final_fraction` is the fraction of the learning rate left at the end of the linear and cosine
    schedules. `clip_norm` is the maximum gradient norm. `accumulate` is the number of batches per step
    (gradient accumulation). `patience` is the number of evaluations without improvement before early
    stopping. `keep` selects the best or the last checkpoint for model.safetensors; with averaging, the
    averaged parameters are evaluated and saved.
    """

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    flops: float | None = None
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
        """Validate the values."""
        for name, (kind, condition, rule) in RULES.items():
            _validate(name, getattr(self, name), kind, condition, rule)
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise unknown_name(name, str(value), choices)
        if all(getattr(self, name) is None for name in BUDGETS):
            raise RegardError(f"The run has no budget. Give at least one of: {', '.join(BUDGETS)}.")

    @property
    def budget(self) -> Budget:
        """The limits of the run."""
        return Budget(*(getattr(self, name) for name in BUDGETS))

    def as_dict(self) -> dict[str, Any]:
        """Every option by name; JSON-compatible."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _validate(
    name: str, value: Any, kind: type, condition: Callable[[Any], bool], rule: str
) -> None:
    optional = name in OPTIONAL
    if value is None and optional:
        return
    is_number = isinstance(value, int | float if kind is float else int)
    finite = is_number and not isinstance(value, bool) and math.isfinite(value)
    if not (finite and condition(value)):
        way_out = f" Omit {name} for no limit." if optional else ""
        raise RegardError(f"{name} is {value!r}; it must be {rule}.{way_out}")


def _positive(value: int | float) -> bool:
    return value > 0


def _not_negative(value: int | float) -> bool:
    return value >= 0


def _fraction(value: int | float) -> bool:
    return 0 <= value < 1


OPTIONAL = {*BUDGETS, "clip_norm", "checkpoint_every", "patience"}

_WHOLE = (int, _positive, "a whole number of at least 1")
_POSITIVE = (float, _positive, "a number above 0")
_NOT_NEGATIVE = (float, _not_negative, "a number of at least 0")
_FRACTION = (float, _fraction, "a number from 0 up to, but not including, 1")

# option → type, condition, the condition as text
RULES: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "steps": _WHOLE,
    "tokens": _WHOLE,
    "seconds": _POSITIVE,
    "flops": _POSITIVE,
    "learning_rate": _POSITIVE,
    "muon_learning_rate": _POSITIVE,
    "weight_decay": _NOT_NEGATIVE,
    "beta1": _FRACTION,
    "beta2": _FRACTION,
    "epsilon": _POSITIVE,
    "warmup_steps": (int, _not_negative, "a whole number of at least 0"),
    "final_fraction": (float, lambda value: 0 <= value <= 1, "a number from 0 to 1"),
    "clip_norm": _POSITIVE,
    "accumulate": _WHOLE,
    "average_decay": _FRACTION,
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
