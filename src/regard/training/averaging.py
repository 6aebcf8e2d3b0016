"""Averages of the weights over a run, which often score better than the weights themselves.

none          the weights as they are
exponential   average ← d · average + (1 − d) · weights after every step,
              d = min(decay, (1 + t) / (10 + t)) after step t, so that the start is soon forgotten
last          the mean of the weights at the last k evaluations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.core.registry import look_up
from regard.training.options import TrainingOptions


@runtime_checkable
class Averaging(Protocol):
    """An average that is kept up to date, and can be saved and loaded."""

    def stepped(self, step: int) -> None:
        """Take note of the weights after this step."""
        ...

    def weights(self, step: int) -> dict[str, Tensor] | None:
        """The weights to evaluate at this step, by parameter; None for the model's own.

        Asking twice at the same step changes nothing.
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """What must be saved."""
        ...

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what was saved; a KeyError or RuntimeError where it is of another model."""
        ...


class NoAveraging:
    """The weights as they are."""

    def __init__(self, model: nn.Module, options: TrainingOptions) -> None:
        """There is nothing to keep."""

    def stepped(self, step: int) -> None:
        """Nothing to note."""

    def weights(self, step: int) -> dict[str, Tensor] | None:
        """The model's own."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """None."""
        return {}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Nothing to load."""


class ExponentialAveraging:
    """A decaying average, begun with the first weights."""

    def __init__(self, model: nn.Module, options: TrainingOptions) -> None:
        """The average starts as a copy of the weights."""
        self.decay = options.average_decay
        self.parameters = _trained(model)
        self.average = {name: now.detach().clone() for name, now in self.parameters.items()}

    @torch.no_grad()
    def stepped(self, step: int) -> None:
        """Move the average a little towards the weights."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(
            list(self.average.values()), list(self.parameters.values()), weight=1.0 - decay
        )

    def weights(self, step: int) -> dict[str, Tensor] | None:
        """The average."""
        return self.average

    def tensors(self) -> dict[str, Tensor]:
        """The average, by parameter."""
        return dict(self.average)

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Copied, so that the memory stays where it is."""
        for name, average in self.average.items():
            average.copy_(tensors[name])


class LastAveraging:
    """The mean of the weights at the last few evaluations."""

    def __init__(self, model: nn.Module, options: TrainingOptions) -> None:
        """Nothing is taken before the first evaluation."""
        self.count = options.average_last
        self.parameters = _trained(model)
        self.taken: dict[int, dict[str, Tensor]] = {}

    def stepped(self, step: int) -> None:
        """Weights are taken at evaluations only."""

    @torch.no_grad()
    def weights(self, step: int) -> dict[str, Tensor] | None:
        """The mean over this evaluation and those before it."""
        self.taken[step] = {name: now.detach().clone() for name, now in self.parameters.items()}
        for old in sorted(self.taken)[: -self.count]:
            del self.taken[old]
        sets = [self.taken[when] for when in sorted(self.taken)]
        return {name: torch.stack([one[name] for one in sets]).mean(0) for name in self.parameters}

    def tensors(self) -> dict[str, Tensor]:
        """Every set of weights taken, as `<step>.<parameter>`."""
        return {
            f"{step}.{name}": value
            for step, taken in self.taken.items()
            for name, value in taken.items()
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """The sets of weights, by step."""
        steps = sorted({int(name.partition(".")[0]) for name in tensors})
        self.taken = {
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
    """The averaging the options ask for, of the trained parameters of `model`."""
    return look_up("averaging", options.averaging, AVERAGINGS)(model, options)


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}
