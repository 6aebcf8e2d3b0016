"""Scoring a model in the middle of its training, and leaving no trace in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.protocols import Task


def evaluate(
    model: nn.Module,
    task: Task,
    *,
    averaged: Mapping[str, Tensor] | None,
    guard: AbstractContextManager[None],
) -> dict[str, float]:
    """The task's scores of a model, with `averaged` in the place of its own weights if there are any.

    Weights, modes and the order of random numbers are afterwards what they were before, also if `guard`,
    which surrounds the task's own work and nothing else, ends it early.
    """
    modes = {module: module.training for module in model.modules()}
    generator = torch.get_rng_state()
    try:
        with weights_replaced(model, averaged or {}), torch.inference_mode():
            model.eval()
            with guard:
                found = task.evaluate(model)
    finally:
        torch.set_rng_state(generator)
        for module, mode in modes.items():
            module.training = mode
    scores = {name: float(value) for name, value in found.items()}
    if task.metric not in scores:
        raise RegardError(
            f"The task's metric '{task.metric}' is not among its scores: {', '.join(scores) or 'none'}. "
            "Let `evaluate` return it, or name another metric."
        )
    return scores


@contextmanager
def weights_replaced(model: nn.Module, others: Mapping[str, Tensor]) -> Iterator[None]:
    """The parameters named in `others` hold those values inside, and their own again afterwards."""
    parameters = dict(model.named_parameters())
    replaced = [parameters[name].detach() for name in others]
    own = [tensor.clone() for tensor in replaced]
    try:
        if others:
            torch._foreach_copy_(replaced, list(others.values()))
        yield
    finally:
        if others:
            torch._foreach_copy_(replaced, own)
