"""One training step: gradient accumulation, gradient clipping, optimizer step.

Lightning Fabric moves model and batches to the device; no other file uses it.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.core.device import resolve_device
from regard.core.errors import RegardError
from regard.core.protocols import Loss, TrainingTask
from regard.training.optimizers import build_optimizers, set_learning_rates
from regard.training.options import TrainingOptions


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], *, max_norm: float | None) -> float:
    """Clip the total gradient norm to `max_norm`, in place; returns the norm before clipping.

    As torch's clip_grad_norm_, but gradients within the limit are not rescaled.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return 0.0
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if max_norm is not None and norm > max_norm:
        torch._foreach_mul_(gradients, max_norm / (norm + 1e-6))
    return norm


class StepResult(NamedTuple):
    """The loss summed over `num_predictions`, and the gradient norm of its mean."""

    total: float
    num_predictions: int
    gradient_norm: float


class Objective(nn.Module):
    """The task's loss as the forward of a module, which is what Fabric wraps."""

    def __init__(self, model: nn.Module, task: TrainingTask) -> None:
        """Register the model as a submodule."""
        super().__init__()
        self.model = model
        self.task = task

    def forward(self, batch: Any) -> Loss:
        """The loss of a batch."""
        return self.task.loss(self.model, batch)


class Stepper:
    """Takes optimizer steps on the loss of a task."""

    def __init__(self, *, model: nn.Module, task: TrainingTask, options: TrainingOptions) -> None:
        """Move the model to the device and build its optimizers."""
        self.options = options
        self.fabric = _fabric(options.device)
        self.objective = self.fabric.setup_module(Objective(model, task))
        self.parameters = [one for one in model.parameters() if one.requires_grad]
        self.optimizers = build_optimizers(model, options)
        if not self.optimizers:
            raise RegardError("The model has no trainable parameters. Unfreeze some of them.")
        self._wrapped = [self.fabric.setup_optimizers(one) for one in self.optimizers]

    def step(
        self, batches: Sequence[Any], *, number: int, factor: float, has_checkpoint: bool = False
    ) -> StepResult:
        """Take step `number` with `factor` of the peak learning rate.

        If the loss or the gradient is not finite, an error is raised and no parameter changes;
        `has_checkpoint` is for its message.
        """
        set_learning_rates(self.optimizers, factor)
        count = sum(batch.num_predictions for batch in batches)
        if count == 0:
            raise RegardError(
                f"Step {number} has no targets: its batches are empty. Remove empty examples from the data."
            )
        total = 0.0
        for batch in batches:
            loss: Loss = self.objective(self.fabric.to_device(batch))
            # Divided by the predictions of all batches, so that accumulation equals one large batch.
            self.fabric.backward(loss.total / count)
            total += float(loss.total.detach())
        norm = clip_gradients(self.parameters, max_norm=self.options.clip_norm)
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._zero_gradients()
            checkpoint = (
                "The last checkpoint is unchanged."
                if has_checkpoint
                else "There is no checkpoint yet."
            )
            raise RegardError(
                f"Training diverged at step {number}: the loss is {total / count:g}, the gradient norm "
                f"{norm:g}, the learning rate {self.options.learning_rate * factor:g}. "
                f"{checkpoint} Try a lower learning_rate, more warmup_steps or a lower clip_norm."
            )
        for optimizer in self._wrapped:
            optimizer.step()
        self._zero_gradients()
        return StepResult(total, count, norm)

    def _zero_gradients(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)


def _fabric(name: str) -> Any:
    """Fabric on one device, with its log messages silenced."""
    device = resolve_device(name, option="training.device=")
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning_fabric import Fabric

        devices = [device.index] if device.type == "cuda" else 1
        return Fabric(accelerator=device.type, devices=devices)
