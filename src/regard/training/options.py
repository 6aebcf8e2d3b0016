"""Training options (hyperparameters): budget, optimizer, schedule, averaging, evaluation, early stopping.

A run ends when the first of its budgets is exhausted: optimizer `steps`, `tokens` read or predicted,
`seconds` of wall-clock time (evaluations included), `flops` of the steps, forward and backward. Runs with a
budget of seconds are not reproducible bit for bit, since the learning rate follows the clock.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.options import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveFloat,
    PositiveInt,
    Probability,
)
from regard.training.schedule import Budget

BUDGETS = Budget._fields


class TrainingOptions(Options):
    """Training options. At least one of the four budgets is required.

    `weight_decay` applies to the matrices of linear, convolutional and recurrent layers only.
    `final_fraction` is the fraction of the learning rate left at the end of the linear and cosine
    schedules. `clip_norm` is the maximum gradient norm. `accumulate` is the number of batches per step
    (gradient accumulation). `patience` is the number of evaluations without improvement before early
    stopping. `keep` selects the best or the last checkpoint for model.safetensors; with averaging, the
    averaged parameters are evaluated and saved.
    """

    SECTION: ClassVar[str] = "training"

    steps: PositiveInt | None = None
    tokens: PositiveInt | None = None
    seconds: PositiveFloat | None = None
    flops: PositiveFloat | None = None
    # The names of the tables in optimizers.py, schedule.py and averaging.py; a test compares them.
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: PositiveFloat = 1e-3
    muon_learning_rate: PositiveFloat = 0.02
    weight_decay: NonNegativeFloat = 0.01
    beta1: Probability = 0.9
    beta2: Probability = 0.98
    epsilon: PositiveFloat = 1e-9
    schedule: Literal["constant", "linear", "cosine", "inverse_sqrt"] = "linear"
    warmup_steps: NonNegativeInt = 400
    final_fraction: Fraction = 0.0
    clip_norm: PositiveFloat | None = 1.0
    accumulate: PositiveInt = 1
    averaging: Literal["none", "exponential", "last"] = "none"
    average_decay: Probability = 0.999
    average_last: PositiveInt = 5
    evaluate_every: PositiveInt = 1000
    checkpoint_seconds: NonNegativeFloat = 60.0
    checkpoint_every: PositiveInt | None = None
    patience: PositiveInt | None = None
    keep: Literal["best", "last"] = "best"
    log_every: PositiveInt = 50
    device: Literal["cpu", "cuda", "mps", "auto"] = "cpu"

    @model_validator(mode="after")
    def _validate_budget(self) -> Self:
        if all(limit is None for limit in self.budget):
            raise ValueError(
                f"The run has no budget. Give at least one of: {', '.join(BUDGETS)}, such as "
                "training.steps=1000."
            )
        return self

    @property
    def budget(self) -> Budget:
        """The limits of the run."""
        return Budget(*(getattr(self, name) for name in BUDGETS))
