"""One step of the optimiser: gradients of the mean loss over some batches, clipped, applied.

Lightning Fabric brings model and batches to the device; no other file knows of it.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.core.errors import RegardError
from regard.core.protocols import Loss, Task
from regard.training.optimizers import build_optimizers, set_rates
from regard.training.options import TrainingOptions

# The norm of all gradients together, and its limit.


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], *, limit: float | None) -> float:
    """The norm before clipping; gradients with a larger norm than `limit` are scaled down to it.

    As torch's clip_grad_norm_, but gradients within the limit are not touched.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return 0.0
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if limit is not None and norm > limit:
        torch._foreach_mul_(gradients, limit / (norm + 1e-6))
    return norm


class Taken(NamedTuple):
    """The loss summed over a number of predictions, and the norm of the gradient of its mean."""

    total: float
    predictions: int
    gradient_norm: float


class Objective(nn.Module):
    """The loss as a module's forward, which is where Fabric does its part, whatever the task calls."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        """The model is a part of it, so that its parameters are found."""
        super().__init__()
        self.model = model
        self.task = task

    def forward(self, batch: Any) -> Loss:
        """The loss of a batch."""
        return self.task.loss(self.model, batch)


class Stepper:
    """Moves the weights of a model by the losses of a task."""

    def __init__(self, *, model: nn.Module, task: Task, options: TrainingOptions) -> None:
        """The model goes to the device, and the optimisers are made there."""
        self.options = options
        self.fabric = _fabric(options.device)
        self.objective = self.fabric.setup_module(Objective(model, task))
        self.parameters = [one for one in model.parameters() if one.requires_grad]
        self.optimizers = build_optimizers(model, options)
        if not self.optimizers:
            raise RegardError(
                "The model has no parameter that can be trained. Unfreeze some of it."
            )
        self._wrapped = [self.fabric.setup_optimizers(one) for one in self.optimizers]

    def step(
        self, batches: Sequence[Any], *, number: int, factor: float, has_checkpoint: bool = False
    ) -> Taken:
        """Take step `number` with `factor` of the peak learning rate.

        Where the loss or the gradient is not a number, an error is raised and nothing is moved; it says
        whether there is a checkpoint to go back to.
        """
        set_rates(self.optimizers, factor)
        count = sum(batch.num_predictions for batch in batches)
        if count == 0:
            raise RegardError(
                f"Step {number} has nothing to predict: its batches are empty. Leave empty examples "
                "out of the data."
            )
        total = 0.0
        for batch in batches:
            loss: Loss = self.objective(self.fabric.to_device(batch))
            # Each batch by the predictions of all, so that batches of any size add up to one large one.
            self.fabric.backward(loss.total / count)
            total += float(loss.total.detach())
        norm = clip_gradients(self.parameters, limit=self.options.clip_norm)
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._forget_gradients()
            kept = (
                "The last checkpoint is kept." if has_checkpoint else "There is no checkpoint yet."
            )
            raise RegardError(
                f"Training broke down at step {number}: the loss is {total / count:g}, the norm of "
                f"the gradient {norm:g}, the learning rate {self.options.learning_rate * factor:g}. "
                f"{kept} Try a lower learning_rate, more warmup_steps or a lower clip_norm."
            )
        for optimizer in self._wrapped:
            optimizer.step()
        self._forget_gradients()
        return Taken(total, count, norm)

    def _forget_gradients(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)


def _fabric(device: str) -> Any:
    """Fabric for one device, without its remarks on what else it could have used."""
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning_fabric import Fabric

        try:
            return Fabric(accelerator=device, devices=1)
        except Exception as error:
            raise RegardError(
                f"The device '{device}' cannot be used: {error} Choose another device, such as cpu."
            ) from error
