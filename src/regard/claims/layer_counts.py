"""What layers take and how far they reach, counted on regard's own layers while they run, or timed.

n is the length, d the width, k the width of a convolution, r the radius of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.claims.counted_runs import counter_of, layer_run, mechanism_run
from regard.claims.interleaved import MedianInterval, interleaved_seconds, quotient
from regard.layers.convolution import Convolution
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent
from regard.mechanisms import build_mechanism
from regard.mechanisms.window import WindowAttention

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
