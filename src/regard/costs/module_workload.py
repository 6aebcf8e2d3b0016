"""Any module with inputs as work to be priced: forward, or forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_iter

from regard.core.errors import RegardError
from regard.costs.running import without_gradients
from regard.costs.trace import Trace, trace
from regard.costs.workload import Mode, Run, Workload

Built = tuple[nn.Module, Sequence[Any]]


def module_workload(name: str, mode: Mode, build: Callable[[], Built]) -> Workload:
    """A call of the module that `build` returns with its inputs; it may be called many times."""

    def prepare() -> Run:
        module, inputs = build()
        if mode == "forward":
            return without_gradients(lambda: module(*inputs))
        for each in inputs:
            if isinstance(each, Tensor) and each.is_floating_point():
                each.requires_grad_()
        return lambda: _forward_and_backward(module, inputs)

    return Workload(name, mode, prepare)


def traced_module(name: str, mode: Mode, build: Callable[[], Built]) -> Trace:
    """Its trace, on fake tensors if it can be done: whatever fails among those is done really."""
    workload = module_workload(name, mode, build)
    try:
        return trace(workload)
    except RegardError:
        raise
    except Exception:
        return trace(workload, really=True)


def _forward_and_backward(module: nn.Module, inputs: Sequence[Any]) -> None:
    wanting = [
        part
        for part in tree_iter(module(*inputs))
        if isinstance(part, Tensor) and part.requires_grad
    ]
    torch.autograd.backward(wanting, [torch.ones_like(part) for part in wanting])
    module.zero_grad(set_to_none=True)
    for each in inputs:
        if isinstance(each, Tensor):
            each.grad = None
