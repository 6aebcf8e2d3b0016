"""Ways of running a call: without gradients, or forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from regard.costs.workload import Run


def without_gradients(call: Callable[[], object]) -> Run:
    """The call alone."""

    def run() -> object:
        with torch.no_grad():
            return call()

    return run


def trained(call: Callable[[], Tensor], *, wanting: Iterable[Tensor]) -> Run:
    """The call and its backward pass, for the gradients of all that want them."""
    tensors = list(wanting)
    for tensor in tensors:
        tensor.requires_grad_()

    def run() -> None:
        output = call()
        output.backward(torch.ones_like(output))
        for tensor in tensors:
            tensor.grad = None

    return run
