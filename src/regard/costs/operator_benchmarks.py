"""Operator micro-benchmarks that calibration times: one operator, on a grid of sizes; and their times.

Between grid points, log time is linear in the log of every size. Beyond the grid, time is extrapolated
in proportion to the work; grid points too slow to measure are filled in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product as all_of
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.costs.trace import Run, no_grad_run

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class LogTable:
    """Seconds for every point of the grid that `axes` (ascending sizes per dimension) spans.

    `powers` are the exponents for extrapolation beyond the grid, one per dimension; 1 by default.
    """

    axes: tuple[tuple[int, ...], ...]
    seconds: dict[Sizes, float]
    powers: tuple[float, ...] = ()

    @classmethod
    def from_measurements(
        cls,
        axes: Sequence[Sequence[int]],
        measure: Callable[[Sizes], float],
        *,
        work: Callable[[Sizes], float],
        max_work: float,
    ) -> Self:
        """Measure every point whose work is at most `max_work`; extrapolate the others."""
        seconds: dict[Sizes, float] = {}
        for point in all_of(*axes):
            if work(point) <= max_work:
                seconds[point] = measure(point)
            else:
                seconds[point] = _extrapolate(point, axes, seconds, work)
        return cls(tuple(tuple(axis) for axis in axes), seconds, _powers(axes, work))

    def at(self, sizes: Sizes) -> float:
        """Interpolated seconds for these sizes."""
        beyond = 1.0
        neighbours = []
        powers = self.powers or (1.0,) * len(self.axes)
        for axis, size, power in zip(self.axes, sizes, powers, strict=True):
            beyond *= max(1.0, size / axis[-1]) ** power
            neighbours.append(_neighbours(axis, min(size, axis[-1])))
        total = 0.0
        for corner in all_of(*neighbours):
            weight = math.prod(share for _, share in corner)
            if weight:
                total += weight * math.log(self.seconds[tuple(size for size, _ in corner)])
        return beyond * math.exp(total)

    def as_json(self) -> dict[str, Any]:
        return {
            "axes": [list(axis) for axis in self.axes],
            "seconds": [self.seconds[point] for point in all_of(*self.axes)],
            "powers": list(self.powers),
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        axes = tuple(tuple(int(size) for size in axis) for axis in record["axes"])
        points = list(all_of(*axes))
        seconds = dict(zip(points, map(float, record["seconds"]), strict=True))
        return cls(axes, seconds, tuple(map(float, record["powers"])))


def _powers(axes: Sequence[Sequence[int]], work: Callable[[Sizes], float]) -> tuple[float, ...]:
    """The exponent by which work grows with each size, at the end of the grid."""
    last = tuple(axis[-1] for axis in axes)
    doubled = [(*last[:i], 2 * last[i], *last[i + 1 :]) for i in range(len(last))]
    return tuple(math.log2(work(sizes) / work(last)) for sizes in doubled)


def _neighbours(axis: tuple[int, ...], size: int) -> list[tuple[int, float]]:
    """The grid sizes on both sides, with their interpolation weights."""
    if size <= axis[0]:
        return [(axis[0], 1.0)]
    upper = next(index for index, grid in enumerate(axis) if grid >= size)
    low, high = axis[upper - 1], axis[upper]
    share = math.log(size / low) / math.log(high / low)
    return [(low, 1 - share), (high, share)]


def _extrapolate(
    point: Sizes,
    axes: Sequence[Sequence[int]],
    seconds: dict[Sizes, float],
    work: Callable[[Sizes], float],
) -> float:
    """The geometric mean of the next lower neighbours, each scaled by its work."""
    guesses = []
    for direction, axis in enumerate(axes):
        index = list(axis).index(point[direction])
        if index:
            lower = (*point[:direction], axis[index - 1], *point[direction + 1 :])
            guesses.append(seconds[lower] * work(point) / work(lower))
    return math.exp(sum(map(math.log, guesses)) / len(guesses))


ROW_LENGTH = 128  # elements per row, for operators that work along rows
# Bytes read and written, from pure overhead to far beyond any cache.
BYTES = (1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25)
MIN_SECONDS = 0.0005  # shorter operators are timed over many calls


class Grid(NamedTuple):
    """The sizes to measure, the function to time, and the work beyond which times are extrapolated.

    Calls shorter than `min_seconds` are repeated and timed together.
    """

    axes: Sequence[Sequence[int]]
    prepare: Callable[..., Run]
    work: Callable[[Sizes], float]
    max_work: float
    min_seconds: float = 0.0


def _matmul(batch: int, rows: int, inner: int, columns: int) -> Run:
    # The values do not affect the time.
    left, right = torch.full((batch, rows, inner), 0.5), torch.full((batch, inner, columns), 0.5)
    if batch == 1:
        only_left, only_right = left[0], right[0]
        return lambda: only_left @ only_right
    return lambda: torch.bmm(left, right)


def _triangular_solve(batch: int, size: int, columns: int) -> Run:
    triangle = torch.eye(size).expand(batch, size, size).contiguous()
    right = torch.full((batch, size, columns), 0.5)
    return lambda: torch.linalg.solve_triangular(triangle, right, upper=False, unitriangular=True)


def _attention(rows: int, queries: int, keys: int, width: int, *, causal: bool = False) -> Run:
    query, key, value = (torch.full((1, rows, n, width), 0.5) for n in (queries, keys, keys))
    return lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal)


def _attention_backward(
    rows: int, queries: int, keys: int, width: int, *, causal: bool = False
) -> Run:
    query, key, value = inputs = [
        torch.full((1, rows, n, width), 0.5, requires_grad=True) for n in (queries, keys, keys)
    ]
    return _backward(F.scaled_dot_product_attention(query, key, value, is_causal=causal), inputs)


def _backward(output: Tensor, tensors: Sequence[Tensor]) -> Run:
    gradient = torch.ones_like(output)
    return lambda: torch.autograd.grad(output, tensors, gradient, retain_graph=True)


def _causal(rows: int, length: int, width: int) -> Run:
    return _attention(rows, length, length, width, causal=True)


def _causal_backward(rows: int, length: int, width: int) -> Run:
    return _attention_backward(rows, length, length, width, causal=True)


def _recurrent(steps: int, batch: int, inputs: int, hidden: int) -> Run:
    layer, x = torch.nn.LSTM(inputs, hidden), torch.randn(steps, batch, inputs)
    return no_grad_run(lambda: layer(x))


def _recurrent_backward(steps: int, batch: int, inputs: int, hidden: int) -> Run:
    layer, x = torch.nn.LSTM(inputs, hidden), torch.randn(steps, batch, inputs, requires_grad=True)
    return _backward(layer(x)[0], [x, *layer.parameters()])


def _convolution(positions: int, inner: int, columns: int) -> Run:
    layer, x = _convolution_inputs(positions, inner, columns)
    return no_grad_run(lambda: layer(x))


def _convolution_backward(positions: int, inner: int, columns: int) -> Run:
    layer, x = _convolution_inputs(positions, inner, columns)
    x.requires_grad_()
    return _backward(layer(x), [x, *layer.parameters()])


def _convolution_inputs(positions: int, inner: int, columns: int) -> tuple[torch.nn.Module, Tensor]:
    length = min(64, positions)
    layer = torch.nn.Conv1d(inner // 3, columns, kernel_size=3, padding=1)
    return layer, torch.randn(positions // length, inner // 3, length)


def _solve_work(sizes: Sizes) -> float:
    batch, size, columns = sizes
    return float(batch * size * size * columns)


def _causal_work(sizes: Sizes) -> float:
    rows, length, width = sizes
    return float(rows * length * length * width)


def _recurrent_work(sizes: Sizes) -> float:
    steps, batch, inputs, hidden = sizes
    return float(steps * batch * (inputs + hidden) * hidden)


_SHAPES = (1, 4, 16, 64, 256, 1024)
_ROWS, _WIDTHS = (1, 2, 8, 64), (16, 32, 64, 128)
_LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096)
# Different query and key lengths are rarer, and measured on a coarser grid.
_PAIRS = (_ROWS, (1, 16, 64, 256, 1024), (16, 64, 256, 1024), _WIDTHS)
_RECURRENT = ((1, 16, 64), (1, 4, 16, 64), (32, 256), (32, 96, 192, 384))
_CONVOLUTION = ((16, 128, 1024), (48, 288, 1152), (16, 96, 384))
_BY_SHAPE: dict[str, Grid] = {
    "matmul": Grid(((1, 2, 8, 64, 256), _SHAPES, _SHAPES, _SHAPES), _matmul, math.prod, 2.0**26),
    "triangular_solve": Grid(
        ((1, 8, 64), (16, 64, 128), (16, 64, 256)), _triangular_solve, _solve_work, 2.0**25
    ),
    "attention": Grid(_PAIRS, _attention, math.prod, 2.0**27),
    "attention_backward": Grid(_PAIRS, _attention_backward, math.prod, 2.0**26),
    "causal_attention": Grid((_ROWS, _LENGTHS, _WIDTHS), _causal, _causal_work, 2.0**28),
    "causal_attention_backward": Grid(
        (_ROWS, _LENGTHS, _WIDTHS), _causal_backward, _causal_work, 2.0**28
    ),
    "recurrent": Grid(_RECURRENT, _recurrent, _recurrent_work, 2.0**27),
    "recurrent_backward": Grid(_RECURRENT, _recurrent_backward, _recurrent_work, 2.0**26),
    "convolution": Grid(_CONVOLUTION, _convolution, math.prod, 2.0**27),
    "convolution_backward": Grid(_CONVOLUTION, _convolution_backward, math.prod, 2.0**26),
}


def _matrix(elements: int) -> Tensor:
    row = min(ROW_LENGTH, max(1, elements))
    return torch.randn(max(1, elements // row), row)


def _unary(function: Callable[[Tensor], object], size: int = 8) -> Callable[[int], Run]:
    """An operator on one tensor that reads and writes `size` bytes per element."""

    def prepare(traffic: int) -> Run:
        x = _matrix(traffic // size)
        return lambda: function(x)

    return prepare


def _binary(function: Callable[[Tensor, Tensor], object], size: int) -> Callable[[int], Run]:
    """The same on two tensors."""

    def prepare(traffic: int) -> Run:
        x, y = _matrix(traffic // size), _matrix(traffic // size)
        return lambda: function(x, y)

    return prepare


def _where(traffic: int) -> Run:
    x = _matrix(traffic // 9)
    mask = torch.ones_like(x, dtype=torch.bool).tril()  # contiguous runs, as in real masks
    return lambda: x.masked_fill(mask, 0.0)


def _softmax_backward(traffic: int) -> Run:
    x = torch.softmax(_matrix(traffic // 12), -1)
    gradient = torch.randn_like(x)
    return lambda: torch.ops.aten._softmax_backward_data(gradient, x, -1, x.dtype)


def _layer_norm(traffic: int) -> Run:
    x = _matrix(traffic // 8)
    gain = torch.ones(x.shape[1])
    return lambda: torch.native_layer_norm(x, [x.shape[1]], gain, gain, 1e-5)


def _layer_norm_backward(traffic: int) -> Run:
    x = _matrix(traffic // 12)
    gain, gradient = torch.ones(x.shape[1]), torch.randn_like(x)
    _, mean, deviation = torch.native_layer_norm(x, [x.shape[1]], gain, gain, 1e-5)
    return lambda: torch.ops.aten.native_layer_norm_backward(
        gradient, x, [x.shape[1]], mean, deviation, gain, gain, [True, True, True]
    )


def _transpose(traffic: int) -> Run:
    return _matrix(traffic // 8).mT.contiguous


def _index_select(traffic: int) -> Run:
    x = _matrix(traffic // 8)
    index = torch.randint(len(x), (len(x),))
    return lambda: x.index_select(0, index)


def _gather(traffic: int) -> Run:
    # One index per element, as when a state is selected for each query.
    x = _matrix(traffic // 8)
    index = torch.randint(len(x), (len(x), 1)).expand_as(x)
    return lambda: x.gather(0, index)


def _index(traffic: int) -> Run:
    x = _matrix(traffic // 8)
    rows, columns = torch.arange(len(x))[:, None], torch.arange(x.shape[1])
    return lambda: x[rows, columns]


def _remainder(traffic: int) -> Run:
    x = torch.arange(max(1, traffic // 16))
    return lambda: x % 7


def _scatter(traffic: int) -> Run:
    x = _matrix(traffic // 8)
    index = torch.randint(len(x), (len(x),))
    return lambda: torch.ops.aten.embedding_dense_backward(x, index, len(x), -1, False)


def _optimizer(traffic: int) -> Run:
    # A parameter, its gradient and two moments, updated in place.
    weight, gradient, first, second = (torch.rand(max(1, traffic // 16)) for _ in range(4))
    step = torch.tensor(1.0)

    def run() -> object:
        return torch._fused_adamw_(
            [weight], [gradient], [first], [second], [], [step],
            lr=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    return run


# kind → a function that runs the operator with a given memory traffic in bytes
_BY_TRAFFIC: dict[str, Callable[[int], Run]] = {
    "elementwise": _binary(torch.add, 12),
    "copy": _unary(torch.clone),
    "transpose": _transpose,
    "exp": _unary(torch.exp),
    "log": _unary(torch.log),
    "tanh": _unary(torch.tanh),
    "sigmoid": _unary(torch.sigmoid),
    "sine": _unary(torch.sin),
    "divide": _binary(torch.div, 12),
    "compare": _binary(torch.lt, 9),
    "where": _where,
    "softmax": _unary(lambda x: torch.softmax(x, -1)),
    "softmax_backward": _softmax_backward,
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "cumsum": _unary(lambda x: x.cumsum(0)),
    "reduce_last": _unary(lambda x: x.sum(-1), 4),
    "reduce_first": _unary(lambda x: x.sum(0), 4),
    "index_select": _index_select,
    "gather": _gather,
    "index": _index,
    "remainder": _remainder,
    "scatter": _scatter,
    "random": _unary(Tensor.uniform_, 4),
    "optimizer": _optimizer,
    "sort": _unary(lambda x: x.sort(dim=-1)),
}


GRIDS = _BY_SHAPE | {
    kind: Grid((BYTES,), prepare, math.prod, math.inf, MIN_SECONDS)
    for kind, prepare in _BY_TRAFFIC.items()
}
