"""Training options (hyperparameters): budget, optimizer, schedule, averaging, evaluation, early stopping.

A run ends when the first of its budgets is exhausted: optimizer `steps`, `tokens` read or predicted,
`seconds` of training (evaluations and checkpoints excluded), `flops` of the steps, forward and backward.
Runs with a budget of seconds are not reproducible bit for bit, since the learning rate follows the clock.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.device import DeviceName
from regard.core.options import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
    Probability,
)
from regard.training.schedule import Budget, Usage

BUDGETS = Budget._fields


class TrainingOptions(Options):
    """Training options. At least one of the four budgets is required.

    Args:
        steps: Budget: number of optimizer steps.
        tokens: Budget: number of tokens read or predicted.
        seconds: Budget: time of training steps, evaluations and checkpoints excluded.
        flops: Budget: FLOPs of the steps, forward and backward.
        optimizer: AdamW, Muon for matrices with AdamW for the rest, or SGD.
        learning_rate: Peak learning rate of AdamW or SGD.
        muon_learning_rate: Peak learning rate of Muon.
        weight_decay: Decay of the matrices of linear, convolutional and recurrent layers only.
        momentum: Momentum of SGD.
        beta1, beta2: Decay rates of Adam's two moments.
        epsilon: Added to Adam's denominator.
        schedule: Learning-rate schedule after the warm-up.
        warmup_steps: Steps of linear warm-up.
        final_fraction: Fraction of the learning rate left at the end of the linear and cosine schedules.
        clip_norm: Maximum gradient norm; none: no clipping.
        accumulate: Number of batches per step (gradient accumulation).
        averaging: Average of the parameters that is evaluated and saved: exponential, or of the last
            evaluations.
        average_decay: Decay of the exponential average, per step.
        average_last: Number of evaluations whose parameters are averaged.
        evaluate_every: Interval between evaluations: a whole number of steps, or a fraction of the budget,
            as `eval_steps` of Hugging Face. 0.1 gives ten evaluations under every budget, so that each
            best checkpoint is chosen from as many.
        checkpoint_seconds: Seconds between two checkpoints.
        checkpoint_every: Steps between two checkpoints, in addition.
        patience: Number of evaluations without improvement before early stopping; none: never.
        keep: Which checkpoint is saved in model.safetensors.
        log_every: Steps between two rows of metrics.jsonl.
        device: cpu, cuda, cuda:N, mps, or auto for the fastest of this machine.
    """

    SECTION: ClassVar[str] = "training"

    steps: PositiveInt | None = None
    tokens: PositiveInt | None = None
    seconds: PositiveFloat | None = None
    flops: PositiveFloat | None = None
    # The names of the tables in optimizers.py, schedule.py and averaging.py; a test compares them.
    optimizer: Literal["adamw", "muon", "sgd"] = "adamw"
    learning_rate: PositiveFloat = 1e-3
    muon_learning_rate: PositiveFloat = 0.02
    weight_decay: NonNegativeFloat = 0.01
    momentum: Probability = 0.9
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
    evaluate_every: PositiveInt | PositiveFraction = 0.1
    checkpoint_seconds: NonNegativeFloat = 60.0
    checkpoint_every: PositiveInt | None = None
    patience: PositiveInt | None = None
    keep: Literal["best", "last"] = "best"
    log_every: PositiveInt = 50
    device: DeviceName = "cpu"

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

    def is_evaluation_due(self, before: Usage, after: Usage) -> bool:
        """Whether an evaluation is due after a step, from the usage before and after it."""
        every = self.evaluate_every
        if isinstance(every, int):
            return after.steps % every == 0
        # Rounding must not shift an evaluation by a step: 0.3 / 0.1 is less than 3.
        passed = (int(self.budget.progress(used) / every + 1e-9) for used in (before, after))
        return next(passed) < next(passed)
