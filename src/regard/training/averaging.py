"""Weight averaging: evaluating an average of the parameters over training instead of the last ones.

none          no averaging
exponential   exponential moving average (EMA), updated after every step:
              average ← d · average + (1 − d) · parameters, d = min(decay, (1 + t) / (10 + t)) at step t
last          the mean of the parameters at the last k evaluations (checkpoint averaging)

`evaluate` scores a model with averaged parameters, without side effects on it or on the random state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.protocols import TrainingTask
from regard.core.registry import lookup
from regard.training.options import TrainingOptions


@runtime_checkable
class Averaging(Protocol):
    """An average of a model's trainable parameters that can be saved and loaded."""

    def update(self, step: int) -> None:
        """Update the average after an optimizer step."""
        ...

    def average(self, step: int) -> dict[str, Tensor] | None:
        """The averaged parameters to evaluate at this step, by name; None for the model's own.

        Calling it twice at the same step changes nothing.
        """
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors to save in a checkpoint."""
        ...

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Restore `state_dict`; KeyError or RuntimeError if it belongs to another model."""
        ...


class NoAveraging:
    """Evaluates the model's own parameters."""

    def __init__(self, model: nn.Module, options: TrainingOptions) -> None:
        """Without state."""

    def update(self, step: int) -> None:
        """Do nothing."""

    def average(self, step: int) -> dict[str, Tensor] | None:
        """None: the model's own parameters."""
        return None

    def state_dict(self) -> dict[str, Tensor]:
        """Empty."""
        return {}

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Do nothing."""


class ExponentialAveraging:
    """An exponential moving average, initialised with the first parameters."""

    def __init__(self, model: nn.Module, options: TrainingOptions) -> None:
        """Copy the parameters."""
        self.decay = options.average_decay
        self.parameters = _trainable_parameters(model)
        self.averaged = {name: now.detach().clone() for name, now in self.parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the average towards the parameters."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(
            list(self.averaged.values()), list(self.parameters.values()), weight=1.0 - decay
        )

    def average(self, step: int) -> dict[str, Tensor] | None:
        """The moving average."""
        return self.averaged

    def state_dict(self) -> dict[str, Tensor]:
        """The moving average, by parameter name."""
        return dict(self.averaged)

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Copy in place."""
        for name, averaged in self.averaged.items():
            averaged.copy_(tensors[name])


class LastAveraging:
    """The mean of the parameters at the last `average_last` evaluations."""

    def __init__(self, model: nn.Module, options: TrainingOptions) -> None:
        """Start without snapshots."""
        self.count = options.average_last
        self.parameters = _trainable_parameters(model)
        self.snapshots: dict[int, dict[str, Tensor]] = {}

    def update(self, step: int) -> None:
        """Do nothing: snapshots are taken at evaluations."""

    @torch.no_grad()
    def average(self, step: int) -> dict[str, Tensor] | None:
        """Take a snapshot, and return the mean of the last ones."""
        self.snapshots[step] = {name: now.detach().clone() for name, now in self.parameters.items()}
        for old in sorted(self.snapshots)[: -self.count]:
            del self.snapshots[old]
        snapshots = [self.snapshots[step] for step in sorted(self.snapshots)]
        return {
            name: torch.stack([snapshot[name] for snapshot in snapshots]).mean(0)
            for name in self.parameters
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Every snapshot, as `<step>.<parameter>`."""
        return {
            f"{step}.{name}": value
            for step, snapshot in self.snapshots.items()
            for name, value in snapshot.items()
        }

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        """Restore the snapshots."""
        steps = sorted({int(name.partition(".")[0]) for name in tensors})
        self.snapshots = {
            step: {
                name: torch.empty_like(now).copy_(tensors[f"{step}.{name}"]).detach()
                for name, now in self.parameters.items()
            }
            for step in steps
        }


AVERAGINGS: dict[str, Callable[[nn.Module, TrainingOptions], Averaging]] = {
    "none": NoAveraging,
    "exponential": ExponentialAveraging,
    "last": LastAveraging,
}


def build_averaging(model: nn.Module, options: TrainingOptions) -> Averaging:
    """The averaging that `options.averaging` names."""
    return lookup("averaging", options.averaging, AVERAGINGS)(model, options)


def _trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def evaluate(
    model: nn.Module,
    task: TrainingTask,
    *,
    averaged: Mapping[str, Tensor] | None,
    guard: AbstractContextManager[None],
) -> dict[str, float]:
    """The task's validation scores of a model, with the `averaged` parameters if there are any.

    Parameters, training mode and random state are restored afterwards, also if `guard`, a context around
    `task.evaluate`, raises.
    """
    modes = {module: module.training for module in model.modules()}
    generator = torch.get_rng_state()
    try:
        with swapped_parameters(model, averaged or {}), torch.inference_mode():
            model.eval()
            with guard:
                scores = task.evaluate(model)
    finally:
        torch.set_rng_state(generator)
        for module, mode in modes.items():
            module.training = mode
    scores = {name: float(value) for name, value in scores.items()}
    if task.metric not in scores:
        raise RegardError(
            f"The task's metric '{task.metric}' is not among its scores: {', '.join(scores) or 'none'}. "
            "Return it from `evaluate`, or choose another metric."
        )
    return scores


@contextmanager
def swapped_parameters(model: nn.Module, values: Mapping[str, Tensor]) -> Iterator[None]:
    """Temporarily replace the parameters named in `values`."""
    parameters = dict(model.named_parameters())
    replaced = [parameters[name].detach() for name in values]
    own = [tensor.clone() for tensor in replaced]
    try:
        if values:
            torch._foreach_copy_(replaced, list(values.values()))
        yield
    finally:
        if values:
            torch._foreach_copy_(replaced, own)
