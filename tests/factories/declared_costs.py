"""Declared costs against counted costs, for layers and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jaxtyping
import torch
from torch import Tensor

from regard.core.cost import Cost
from regard.core.counter import Counter

NUM_SHAPES = 20
FLOPS_TOLERANCE = 0.02

Call = Callable[..., Tensor]


def assert_declared_cost(
    cost: Cost, *, parameters: int, forward: Call, step: Call | None = None, where: str = ""
) -> None:
    """Exact for matmul FLOPs (forward, backward, step), transcendental ops and parameters; FLOPs to 2 %.

    `forward` and `step` return the output. Without `step`, no step cost may be declared.
    """
    with _without_shape_checks():
        counter = _count(forward)
        training = _training_flops(forward)
        stepped = 0 if step is None else _count(step).matmul_flops
    assert cost.matmul_flops == counter.matmul_flops, f"matmul_flops of {where}"
    assert cost.transcendental_ops == counter.transcendental_ops, f"transcendental_ops of {where}"
    assert cost.parameters == parameters, f"parameters of {where}"
    difference = abs(cost.flops - counter.flops)
    assert difference <= FLOPS_TOLERANCE * counter.flops, (
        f"flops of {where}: {cost.flops} declared, {counter.flops} counted"
    )
    assert cost.matmul_flops + cost.backward_matmul_flops == training, f"training of {where}"
    assert cost.step_matmul_flops == stepped, f"step_matmul_flops of {where}"


def _count(call: Call) -> Counter:
    with torch.no_grad(), Counter() as counter:
        call()
    return counter


def _training_flops(forward: Call) -> int:
    with Counter() as counter:
        output = forward()
        if output.requires_grad:
            output.backward(torch.ones_like(output))
    return counter.matmul_flops


@contextmanager
def _without_shape_checks() -> Iterator[None]:
    """Without shape checks, which take longer than the counting."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
