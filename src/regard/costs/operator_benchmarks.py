"""What calibration runs: one operator at a time, in given sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.costs.interpolation import Sizes
from regard.costs.trace import Run

ROW = 128  # numbers in a row, for operators that work along rows


# Bytes an operator reads and writes, from one that is all overhead to one far beyond any cache.
BYTES = (1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25)
SHORT = 0.0005


class Grid(NamedTuple):
    """Sizes to measure, what to run for them, and how much of its work is worth measuring.

    Runs shorter than `at_least` seconds are timed together.
    """

    axes: Sequence[Sequence[int]]
    prepare: Callable[..., Run]
    work: Callable[[Sizes], float]
    most: float
    at_least: float = 0.0


def _product(batch: int, rows: int, inner: int, columns: int) -> Run:
    # Which numbers are multiplied makes no difference, and drawing them would take longer.
    left, right = torch.full((batch, rows, inner), 0.5), torch.full((batch, inner, columns), 0.5)
    if batch == 1:
        only_left, only_right = left[0], right[0]
        return lambda: only_left @ only_right
    return lambda: torch.bmm(left, right)


def _solve(batch: int, size: int, columns: int) -> Run:
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
    output = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    gradient = torch.ones_like(output)
    return lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)


def _causal(rows: int, length: int, width: int) -> Run:
    return _attention(rows, length, length, width, causal=True)


def _causal_backward(rows: int, length: int, width: int) -> Run:
    return _attention_backward(rows, length, length, width, causal=True)


def _recurrent(steps: int, batch: int, inputs: int, hidden: int) -> Run:
    layer, x = torch.nn.LSTM(inputs, hidden), torch.randn(steps, batch, inputs)

    def run() -> object:
        with torch.no_grad():
            return layer(x)

    return run


def _recurrent_backward(steps: int, batch: int, inputs: int, hidden: int) -> Run:
    layer, x = torch.nn.LSTM(inputs, hidden), torch.randn(steps, batch, inputs, requires_grad=True)
    output, _ = layer(x)
    wanting = [x, *layer.parameters()]
    gradient = torch.ones_like(output)
    return lambda: torch.autograd.grad(output, wanting, gradient, retain_graph=True)


def _convolution(positions: int, inner: int, columns: int) -> Run:
    layer, x = _convolved(positions, inner, columns)

    def run() -> object:
        with torch.no_grad():
            return layer(x)

    return run


def _convolution_backward(positions: int, inner: int, columns: int) -> Run:
    layer, x = _convolved(positions, inner, columns)
    x.requires_grad_()
    output = layer(x)
    wanting, gradient = [x, *layer.parameters()], torch.ones_like(output)
    return lambda: torch.autograd.grad(output, wanting, gradient, retain_graph=True)


def _convolved(positions: int, inner: int, columns: int) -> tuple[torch.nn.Module, Tensor]:
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
_ROWS, _LENGTHS, _WIDTHS = (
    (1, 2, 8, 64),
    (16, 64, 128, 256, 512, 1024, 2048, 4096),
    (16, 32, 64, 128),
)
# Queries and keys of different lengths are rarer, and measured more coarsely.
_PAIRS = (_ROWS, (1, 16, 64, 256, 1024), (16, 64, 256, 1024), _WIDTHS)
_RECURRENT = ((1, 16, 64), (1, 4, 16, 64), (32, 256), (32, 96, 192, 384))
_CONVOLVED = ((16, 128, 1024), (48, 288, 1152), (16, 96, 384))
_SHAPED: dict[str, Grid] = {
    "product": Grid(((1, 2, 8, 64, 256), _SHAPES, _SHAPES, _SHAPES), _product, math.prod, 2.0**26),
    "solve": Grid(((1, 8, 64), (16, 64, 128), (16, 64, 256)), _solve, _solve_work, 2.0**25),
    "attention": Grid(_PAIRS, _attention, math.prod, 2.0**27),
    "attention_backward": Grid(_PAIRS, _attention_backward, math.prod, 2.0**26),
    "causal_attention": Grid((_ROWS, _LENGTHS, _WIDTHS), _causal, _causal_work, 2.0**28),
    "causal_attention_backward": Grid(
        (_ROWS, _LENGTHS, _WIDTHS), _causal_backward, _causal_work, 2.0**28
    ),
    "recurrent": Grid(
        _RECURRENT,
        _recurrent,
        _recurrent_work,
        2.0**27,
    ),
    "recurrent_backward": Grid(
        _RECURRENT,
        _recurrent_backward,
        _recurrent_work,
        2.0**26,
    ),
    "convolution": Grid(_CONVOLVED, _convolution, math.prod, 2.0**27),
    "convolution_backward": Grid(_CONVOLVED, _convolution_backward, math.prod, 2.0**26),
}


def _rows(numbers: int) -> Tensor:
    row = min(ROW, max(1, numbers))
    return torch.randn(max(1, numbers // row), row)


def _unary(function: Callable[[Tensor], object]) -> Callable[[int], Run]:
    """An operator that reads as many numbers as it writes."""

    def prepare(moved: int) -> Run:
        x = _rows(moved // 8)
        return lambda: function(x)

    return prepare


def _plain(moved: int) -> Run:
    x, y = _rows(moved // 12), _rows(moved // 12)
    return lambda: x + y


def _divide(moved: int) -> Run:
    x, y = _rows(moved // 12), _rows(moved // 12)
    return lambda: x / y


def _compare(moved: int) -> Run:
    x, y = _rows(moved // 9), _rows(moved // 9)
    return lambda: x < y


def _choose(moved: int) -> Run:
    x = _rows(moved // 9)
    mask = torch.ones_like(x, dtype=torch.bool).tril()  # as masks are: long runs, no coin for each
    return lambda: x.masked_fill(mask, 0.0)


def _softmax_backward(moved: int) -> Run:
    x = torch.softmax(_rows(moved // 12), -1)
    gradient = torch.randn_like(x)
    return lambda: torch.ops.aten._softmax_backward_data(gradient, x, -1, x.dtype)


def _layer_norm(moved: int) -> Run:
    x = _rows(moved // 8)
    gain = torch.ones(x.shape[1])
    return lambda: torch.native_layer_norm(x, [x.shape[1]], gain, gain, 1e-5)


def _layer_norm_backward(moved: int) -> Run:
    x = _rows(moved // 12)
    gain, gradient = torch.ones(x.shape[1]), torch.randn_like(x)
    _, mean, deviation = torch.native_layer_norm(x, [x.shape[1]], gain, gain, 1e-5)
    return lambda: torch.ops.aten.native_layer_norm_backward(
        gradient, x, [x.shape[1]], mean, deviation, gain, gain, [True, True, True]
    )


def _transpose(moved: int) -> Run:
    x = _rows(moved // 8)
    return x.mT.contiguous


def _gather(moved: int) -> Run:
    x = _rows(moved // 8)
    index = torch.randint(len(x), (len(x),))
    return lambda: x.index_select(0, index)


def _pick(moved: int) -> Run:
    # Numbers one by one, each by an index of its own, as where a row of states is taken for each query.
    x = _rows(moved // 8)
    index = torch.randint(len(x), (len(x), 1)).expand_as(x)
    return lambda: x.gather(0, index)


def _index(moved: int) -> Run:
    x = _rows(moved // 8)
    rows, columns = torch.arange(len(x))[:, None], torch.arange(x.shape[1])
    return lambda: x[rows, columns]


def _remainder(moved: int) -> Run:
    x = torch.arange(max(1, moved // 16))
    return lambda: x % 7


def _scatter(moved: int) -> Run:
    x = _rows(moved // 8)
    index = torch.randint(len(x), (len(x),))
    return lambda: torch.ops.aten.embedding_dense_backward(x, index, len(x), -1, False)


def _random(moved: int) -> Run:
    x = _rows(moved // 4)
    return x.uniform_


def _optimise(moved: int) -> Run:
    # A weight, its gradient and two moments; what is written is written where it was read.
    weight, gradient, first, second = (torch.rand(max(1, moved // 16)) for _ in range(4))
    step = torch.tensor(1.0)

    def run() -> object:
        return torch._fused_adamw_(
            [weight], [gradient], [first], [second], [], [step],
            lr=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    return run


# kind → what moves so many bytes
_MOVERS: dict[str, Callable[[int], Run]] = {
    "plain": _plain,
    "copy": _unary(torch.clone),
    "transpose": _transpose,
    "exp": _unary(torch.exp),
    "log": _unary(torch.log),
    "tanh": _unary(torch.tanh),
    "sigmoid": _unary(torch.sigmoid),
    "sine": _unary(torch.sin),
    "divide": _divide,
    "compare": _compare,
    "choose": _choose,
    "softmax": _unary(lambda x: torch.softmax(x, -1)),
    "softmax_backward": _softmax_backward,
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "cumulate": _unary(lambda x: x.cumsum(0)),
    "reduce_last": lambda moved: _reduction(moved, -1),
    "reduce_first": lambda moved: _reduction(moved, 0),
    "gather": _gather,
    "pick": _pick,
    "index": _index,
    "remainder": _remainder,
    "scatter": _scatter,
    "random": _random,
    "optimise": _optimise,
    "sort": _unary(lambda x: x.sort(dim=-1)),
}


def _reduction(moved: int, dim: int) -> Run:
    x = _rows(moved // 4)
    return lambda: x.sum(dim)


GRIDS = _SHAPED | {
    kind: Grid((BYTES,), mover, math.prod, math.inf, SHORT) for kind, mover in _MOVERS.items()
}
