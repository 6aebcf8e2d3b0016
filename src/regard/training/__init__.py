"""The training loop, with optimizers, learning-rate schedules, weight averaging, checkpoints and callbacks.

It depends on the `TrainingTask` protocol, never on a concrete task or model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.training.callbacks import (
        Callback as Callback,
        Evaluation as Evaluation,
        Outcome as Outcome,
        ProgressDisplay as ProgressDisplay,
        StepMetrics as StepMetrics,
        TensorBoard as TensorBoard,
        TrainingStart as TrainingStart,
    )
    from regard.training.checkpoint import load_parameters as load_parameters
    from regard.training.loop import train as train
    from regard.training.options import TrainingOptions as TrainingOptions
    from regard.training.schedule import Budget as Budget

__all__, __getattr__, __dir__ = lazy_exports(__name__)
