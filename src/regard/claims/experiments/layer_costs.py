"""Costs and path lengths of layers, counted or timed on regard's own layers, and their figures.

n is the length, d the model dimension, k the kernel size of a convolution, r the radius of a window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.claims.engine import (
    MedianInterval,
    count_ops,
    curve_figure,
    interleaved_seconds,
    layer_call,
    line,
    mechanism_call,
    ratio_interval,
)
from regard.core.records.claim import CurveFigure
from regard.layers.convolution import Convolution
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent
from regard.mechanisms import build_mechanism
from regard.mechanisms.scores.dot_product import WindowAttention

CELL_NAMES = ("lstm", "gru", "tanh")

Count = Callable[[int, int], int]


def attention_flops(n: int, d: int) -> int:
    """Matmul FLOPs of scaled dot-product attention without projections."""
    return count_ops(mechanism_call("scaled_dot", n=n, d=d)).matmul_flops


def self_attention_flops(n: int, d: int) -> int:
    """Matmul FLOPs of a self-attention layer with its four projections."""
    return count_ops(layer_call(MultiHead(model_dim=d, num_heads=1), n=n, d=d)).matmul_flops


def recurrent_flops(n: int, d: int, *, cell: str = "lstm") -> int:
    """Matmul FLOPs of a recurrent layer with hidden size d."""
    layer = Recurrent(model_dim=d, hidden_dim=d, cell=cell)
    return count_ops(layer_call(layer, n=n, d=d)).matmul_flops


def convolution_flops(n: int, d: int, k: int = 3) -> int:
    """Matmul FLOPs of a convolution with d channels."""
    return count_ops(layer_call(Convolution(model_dim=d, width=k), n=n, d=d)).matmul_flops


def plain_flops(n: int, d: int) -> int:
    """Matmul FLOPs of a plain RNN: 4nd², as attention has 4n²d."""
    return recurrent_flops(n, d, cell="tanh")


def recurrent_counter(cell: str) -> Count:
    """`recurrent_flops` with this cell."""
    return lambda n, d: recurrent_flops(n, d, cell=cell)


def crossing_length(first: Count, second: Count, *, d: int) -> int:
    """The smallest n at which the first count is not below the second; 0 if it never is. By bisection."""
    low, high = 0, 8 * d
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if first(middle, d) < second(middle, d) else (low, middle)
    return high if low else 0


def time_ratios(
    cell: str, lengths: Sequence[int], *, d: int, heads: int, rounds: int
) -> dict[int, MedianInterval]:
    """Length → time of self-attention divided by that of the recurrent layer."""
    torch.manual_seed(0)
    attention = MultiHead(model_dim=d, num_heads=heads).eval()
    recurrent = Recurrent(model_dim=d, hidden_dim=d, cell=cell).eval()
    ratios = {}
    for n in lengths:
        calls = {
            "attention": layer_call(attention, n=n, d=d),
            "recurrent": layer_call(recurrent, n=n, d=d),
        }
        with torch.no_grad():
            times = interleaved_seconds(calls, rounds=rounds)
        ratios[n] = ratio_interval(times["attention"], times["recurrent"])
    return ratios


def sequential_depth(layer: nn.Module, *, n: int, d: int) -> int:
    """Length of the longest chain of dependent operators."""
    return count_ops(layer_call(layer, n=n, d=d)).depth


def mechanism_connectivity(mechanism: str, *, n: int, d: int = 4) -> np.ndarray:
    """Which position attends to which in one layer of a mechanism."""
    built: Any = build_mechanism(mechanism, query_dim=d, key_dim=d, num_heads=1, max_length=n)
    generator = torch.Generator().manual_seed(0)
    query, key = (
        torch.randn(1, 1, n, d, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    with torch.no_grad():
        weights: Tensor = built.double().weights(query, key)
    return np.asarray((weights[0, 0] != 0).numpy())


def layers_until_connected(connected: np.ndarray) -> int | None:
    """Number of layers until every position depends on every other; None if never."""
    total, layers = connected, 1
    while not total.all():
        # Residual connections keep what has been connected.
        extended = total | ((total.astype(int) @ connected.astype(int)) > 0)
        if (extended == total).all():
            return None
        total, layers = extended, layers + 1
    return layers


def window_connectivity(n: int, r: int) -> np.ndarray:
    """Which position attends to which in one layer of window attention."""
    generator = torch.Generator().manual_seed(0)
    query, key = (
        torch.randn(1, 1, n, 4, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    weights = WindowAttention(radius=r).weights(query, key)
    return np.asarray((weights[0, 0] != 0).numpy())


def growth(mechanism: str, *, d: int) -> tuple[list[int], list[int]]:
    """Equally spaced lengths, and the FLOPs of a mechanism at each."""
    lengths = [32 * step for step in range(1, 11)]
    counters = [count_ops(mechanism_call(mechanism, n=n, d=d)) for n in lengths]
    return lengths, [counter.flops for counter in counters]


def recurrent_path_length(layer: Recurrent, *, n: int) -> int:
    """Steps on the shortest path from the first of n tokens to the last output; 0 if there is none.

    Operators in the autograd graph are numbered by the step that created them; the shortest path is the one
    with the fewest steps.
    """
    layer, generator = layer.double(), torch.Generator().manual_seed(0)
    width = layer.layer.input_size
    tokens = [
        torch.randn(1, 1, width, dtype=torch.float64, generator=generator).requires_grad_()
        for _ in range(n)
    ]
    state, step_of = layer.start(1), dict[Any, int]()
    for number, token in enumerate(tokens):
        output, state = layer.step(state, token)
        _number(step_of, (output, *state), number)
    (gradient,) = torch.autograd.grad(
        output.sum(), tokens[0], retain_graph=True, materialize_grads=True
    )
    return _fewest_steps(output.grad_fn, tokens[0], step_of) if bool(gradient.any()) else 0


def _number(step_of: dict[Any, int], created: Iterable[Tensor], number: int) -> None:
    """Number the operators that created these tensors, except those of earlier steps."""
    queue = [tensor.grad_fn for tensor in created if tensor.grad_fn is not None]
    while queue:
        operator = queue.pop()
        if operator in step_of:
            continue
        step_of[operator] = number
        queue += [before for before, _ in operator.next_functions if before is not None]


def _fewest_steps(last: Any, first: Tensor, step_of: dict[Any, int]) -> int:
    """0-1 breadth-first search: edges within a step cost 0, edges to another step cost 1."""
    queue, seen = deque([(last, 1)]), set[Any]()
    while queue:
        operator, steps = queue.popleft()
        if getattr(operator, "variable", None) is first:
            return steps
        if operator in seen:
            continue
        seen.add(operator)
        for before, _ in operator.next_functions:
            if before is None:
                continue
            if step_of[before] == step_of[operator]:
                queue.appendleft((before, steps))
            else:
                queue.append((before, steps + 1))
    return 0


def two_lines_figure(
    title: str,
    y_label: str,
    lengths: Sequence[int],
    attention: Sequence[int | None],
    recurrent: Sequence[int],
) -> CurveFigure:
    """One quantity of self-attention and of a recurrent layer, by length."""
    return curve_figure(
        title,
        ("length n", y_label),
        line("self-attention", lengths, [layers or 0 for layers in attention]),
        line("recurrent", lengths, recurrent),
    )


def growth_figure(
    lengths: Sequence[int],
    counted: Sequence[int],
    mechanism: str,
    *,
    exponential: float | None = None,
) -> CurveFigure:
    """FLOPs by length, with an exponential for comparison."""
    curves = [line(mechanism, lengths, counted)]
    if exponential is not None:
        grown = [counted[0] * exponential**step for step in range(len(lengths))]
        curves.append(line("exponential", lengths, grown, dashed=True))
    return curve_figure(
        "FLOPs by length", ("length n", "FLOPs"), *curves, log="" if exponential is None else "y"
    )
