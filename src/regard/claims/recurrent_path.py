"""Through how many of its steps a recurrent layer leads the first token to its last output.

Every operator that a step adds to the graph of gradients carries that step's number; the shortest way
through the graph is the one with the fewest steps on it. A layer that hands earlier states on beside the
last would have a shorter way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from regard.layers.recurrent import Recurrent


def steps_until_read(layer: Recurrent, *, n: int) -> int:
    """Steps on the shortest way from the first of n tokens to the last output; 0 if there is none."""
    layer, drawn = layer.double(), torch.Generator().manual_seed(0)
    width = layer.layer.input_size
    tokens = [
        torch.randn(1, 1, width, dtype=torch.float64, generator=drawn).requires_grad_()
        for _ in range(n)
    ]
    state, step_of = layer.start(1), dict[Any, int]()
    for number, token in enumerate(tokens):
        output, state = layer.step(state, token)
        _number(step_of, (output, *state), number)
    (slope,) = torch.autograd.grad(
        output.sum(), tokens[0], retain_graph=True, materialize_grads=True
    )
    return _fewest_steps(output.grad_fn, tokens[0], step_of) if bool(slope.any()) else 0


def _number(step_of: dict[Any, int], made: Iterable[Tensor], number: int) -> None:
    """Give the operators behind these tensors the number, but for those of earlier steps."""
    waiting = [tensor.grad_fn for tensor in made if tensor.grad_fn is not None]
    while waiting:
        operator = waiting.pop()
        if operator in step_of:
            continue
        step_of[operator] = number
        waiting += [before for before, _ in operator.next_functions if before is not None]


def _fewest_steps(last: Any, first: Tensor, step_of: dict[Any, int]) -> int:
    """Ways within a step are walked before those that enter another."""
    waiting, seen = deque([(last, 1)]), set[Any]()
    while waiting:
        operator, steps = waiting.popleft()
        if getattr(operator, "variable", None) is first:
            return steps
        if operator in seen:
            continue
        seen.add(operator)
        for before, _ in operator.next_functions:
            if before is None:
                continue
            if step_of[before] == step_of[operator]:
                waiting.appendleft((before, steps))
            else:
                waiting.append((before, steps + 1))
    return 0
