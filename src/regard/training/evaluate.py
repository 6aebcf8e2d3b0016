"""Validation during training, without side effects on the model or the random state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.protocols import TrainingTask


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
