"""What a `cost` declares against what a counter sees: one check for layers and for models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jaxtyping
import torch
from torch import Tensor

from regard.core.cost import Cost
from regard.core.counter import Counter

NUM_SHAPES = 20
OPERATIONS_TOLERANCE = 0.02

Call = Callable[..., Tensor]


def require_declared(
    cost: Cost, *, parameters: int, forward: Call, step: Call | None = None, where: str = ""
) -> None:
    """Products, forward, backward and of a step, functions and parameters exactly; operations to 2 %.

    `forward` and `step` give the output. With no `step`, none may be declared.
    """
    with _unchecked():
        counter = _counted(forward)
        backward = _backward_products(forward)
        stepped = 0 if step is None else _counted(step).products
    assert cost.products == counter.products, f"products of {where}"
    assert cost.functions == counter.functions, f"functions of {where}"
    assert cost.parameters == parameters, f"parameters of {where}"
    apart = abs(cost.operations - counter.operations)
    assert apart <= OPERATIONS_TOLERANCE * counter.operations, (
        f"operations of {where}: {cost.operations} declared, {counter.operations} counted"
    )
    assert cost.backward_products == backward, f"backward products of {where}"
    assert cost.step_products == stepped, f"step products of {where}"


def _counted(call: Call) -> Counter:
    with torch.no_grad(), Counter() as counter:
        call()
    return counter


def _backward_products(forward: Call) -> int:
    output = forward()
    if not output.requires_grad:
        return 0
    with Counter() as counter:
        output.backward(torch.ones_like(output))
    return counter.products


@contextmanager
def _unchecked() -> Iterator[None]:
    """Without the checks of signatures, which take longer than the rest of the counter."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
