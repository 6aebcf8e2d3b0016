"""What layers take and how far they reach, counted on regard's own layers while they run, or timed.

n is the length, d the width, k the width of a convolution, r the radius of a window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.claims.engine import (
    MedianInterval,
    counter_of,
    interleaved_seconds,
    layer_run,
    line,
    mechanism_run,
    quotient,
)
from regard.core.counter import Counter
from regard.core.records.claim import CurvePicture, MatrixPicture
from regard.layers.convolution import Convolution
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent
from regard.mechanisms import build_mechanism
from regard.mechanisms.scores.dot_product import WindowAttention

CELL_NAMES = ("lstm", "gru", "tanh")

Count = Callable[[int, int], int]


def attention_products(n: int, d: int) -> int:
    """Of scaled dot attention alone."""
    return counter_of(mechanism_run("scaled_dot", n=n, d=d)).products


def self_attention_products(n: int, d: int) -> int:
    """Of the layer: the four projections too."""
    return counter_of(layer_run(MultiHead(model_dim=d, num_heads=1), n=n, d=d)).products


def recurrent_products(n: int, d: int, *, cell: str = "lstm") -> int:
    """Of a recurrent layer as wide as its input."""
    layer = Recurrent(model_dim=d, hidden_dim=d, cell=cell)
    return counter_of(layer_run(layer, n=n, d=d)).products


def convolution_products(n: int, d: int, k: int = 3) -> int:
    """Of a convolution as wide as its input."""
    return counter_of(layer_run(Convolution(model_dim=d, width=k), n=n, d=d)).products


def plain_products(n: int, d: int) -> int:
    """Of a plain RNN: its nd² has the constant that the n²d of attention has."""
    return recurrent_products(n, d, cell="tanh")


def products_of(cell: str) -> Count:
    """The count of a recurrent layer with this cell."""
    return lambda n, d: recurrent_products(n, d, cell=cell)


def boundary(first: Count, second: Count, *, d: int) -> int:
    """The least n at which the first no longer has fewer products; 0 if it never has. Found by halving."""
    low, high = 0, 8 * d
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if first(middle, d) < second(middle, d) else (low, middle)
    return high if low else 0


def time_ratios(
    cell: str, lengths: Sequence[int], *, d: int, heads: int, rounds: int
) -> dict[int, MedianInterval]:
    """Length → the time of self-attention as a part of the recurrent layer's."""
    torch.manual_seed(0)
    attention = MultiHead(model_dim=d, num_heads=heads).eval()
    recurrent = Recurrent(model_dim=d, hidden_dim=d, cell=cell).eval()
    found = {}
    for n in lengths:
        runs = {
            "attention": layer_run(attention, n=n, d=d),
            "recurrent": layer_run(recurrent, n=n, d=d),
        }
        with torch.no_grad():
            times = interleaved_seconds(runs, rounds=rounds)
        found[n] = quotient(times["attention"], times["recurrent"])
    return found


def chain(layer: nn.Module, *, n: int, d: int) -> int:
    """The longest chain of operators each of which needed the one before."""
    return counter_of(layer_run(layer, n=n, d=d)).depth


def mechanism_reach(mechanism: str, *, n: int, d: int = 4) -> np.ndarray:
    """Which position reads which in one layer of a mechanism."""
    built: Any = build_mechanism(mechanism, query_dim=d, key_dim=d, num_heads=1, max_length=n)
    drawn = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 1, n, d, generator=drawn, dtype=torch.float64) for _ in range(2))
    with torch.no_grad():
        weights: Tensor = built.double().weights(query, key)
    return np.asarray((weights[0, 0] != 0).numpy())


def layers_until_all_meet(reach: np.ndarray) -> int | None:
    """How many layers of this reach it takes until every position has reached every other; None if ever."""
    met, layers = reach, 1
    while not met.all():
        # Once reached is reached: a layer may hand on what it has.
        further = met | ((met.astype(int) @ reach.astype(int)) > 0)
        if (further == met).all():
            return None
        met, layers = further, layers + 1
    return layers


def window_reach(n: int, r: int) -> np.ndarray:
    """Which position reads which in one layer of window attention."""
    drawn = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 1, n, 4, generator=drawn, dtype=torch.float64) for _ in range(2))
    weights = WindowAttention(radius=r).weights(query, key)
    return np.asarray((weights[0, 0] != 0).numpy())


def growth(mechanism: str, *, d: int) -> tuple[list[int], list[int]]:
    """Lengths at equal steps, and all operations of a mechanism there."""
    lengths = [32 * place for place in range(1, 11)]
    counters = [counter_of(mechanism_run(mechanism, n=n, d=d)) for n in lengths]
    return lengths, [counter.operations for counter in counters]


# Through how many of its steps a recurrent layer leads the first token to its last output.
#
# Every operator that a step adds to the graph of gradients carries that step's number; the shortest
# way through the graph is the one with the fewest steps on it. A layer that hands earlier states on
# beside the last would have a shorter way.


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


# The pictures of the claims about the costs of layers.


def products_picture(count: Callable[..., int], layer: str) -> CurvePicture:
    """Products by length, at several widths."""
    lengths = (8, 16, 32, 64)
    return CurvePicture(
        title=f"Products of {layer}",
        x_label="length n",
        y_label="products",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(label=f"d = {d}", x=lengths, y=tuple(float(count(n, d)) for n in lengths))
            for d in (8, 16, 32)
        ),
    )


def heads_picture(heads: Sequence[int], counted: Sequence[Counter]) -> CurvePicture:
    """Products and all operations by the number of heads."""
    whole = [float(counter.operations) for counter in counted]
    products = [float(c.products) for c in counted]
    return CurvePicture(
        title="Self-attention with h heads of width d/h",
        x_label="heads h",
        y_label="operations",
        x_scale="log",
        curves=(
            line(label="products", x=heads, y=products),
            line(label="all operations", x=heads, y=whole),
        ),
    )


def against_recurrent_picture(*, d: int) -> CurvePicture:
    """Products of self-attention and of recurrent layers by length."""
    lengths = tuple(range(d // 4, 3 * d + 1, d // 4)) if d >= 4 else tuple(range(1, 3 * d + 1))
    kinds: dict[str, Count] = {
        "self-attention": self_attention_products,
        "its n²d alone": attention_products,
        **{cell: products_of(cell) for cell in CELL_NAMES},
    }
    return CurvePicture(
        title=f"Products at width d = {d}",
        x_label="length n",
        y_label="products",
        curves=tuple(
            # Recurrent layers are straight lines: two points draw them.
            line(label=kind, x=ends, y=tuple(float(count(n, d)) for n in ends))
            for kind, count in kinds.items()
            for ends in ((lengths[0], lengths[-1]) if kind in CELL_NAMES else lengths,)
        ),
        marks=((float(d), "n = d"), (float(2 * d), "n = 2d")),
    )


def time_ratio_picture(
    ratios: Mapping[str, Mapping[int, MedianInterval]], *, d: int
) -> CurvePicture:
    """Times by length, with their intervals."""
    return CurvePicture(
        title="Time of self-attention as a part of a recurrent layer's",
        x_label="length n",
        y_label="part of the time",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(
                label=cell,
                x=found,
                y=tuple(each.median for each in found.values()),
                low=tuple(each.low for each in found.values()),
                high=tuple(each.high for each in found.values()),
            )
            for cell, found in ratios.items()
        ),
        marks=((float(d), "n = d"),),
    )


def two_lines_picture(
    title: str,
    y_label: str,
    lengths: Sequence[int],
    attention: Sequence[int | None],
    recurrent: Sequence[int],
) -> CurvePicture:
    """One number of self-attention and of a recurrent layer, by length."""
    return CurvePicture(
        title=title,
        x_label="length n",
        y_label=y_label,
        curves=(
            line(label="self-attention", x=lengths, y=[layers or 0 for layers in attention]),
            line(label="recurrent", x=lengths, y=recurrent),
        ),
    )


def window_picture(found: Mapping[tuple[int, int], int | None]) -> MatrixPicture:
    """Layers by length and radius; 0 where positions never meet."""
    lengths, radii = sorted({n for n, _ in found}), sorted({r for _, r in found})
    return MatrixPicture(
        title="Layers until all positions have met",
        values=tuple(tuple(float(found[n, r] or 0) for n in lengths) for r in radii),
        row_labels=tuple(f"r = {r}" for r in radii),
        column_labels=tuple(f"n = {n}" for n in lengths),
    )


def growth_picture(
    lengths: Sequence[int],
    counted: Sequence[int],
    mechanism: str,
    *,
    exponential: float | None = None,
) -> CurvePicture:
    """Operations by length, and an exponential beside them if asked for."""
    curves = [line(label=mechanism, x=lengths, y=tuple(float(each) for each in counted))]
    if exponential is not None:
        grown = tuple(float(counted[0]) * exponential**place for place in range(len(lengths)))
        curves.append(line(label="exponential", x=lengths, y=grown, dashed=True))
    return CurvePicture(
        title="Operations by length",
        x_label="length n",
        y_label="operations",
        y_scale="log" if exponential is not None else "linear",
        curves=tuple(curves),
    )
